//! The transaction as the rules see it.

use super::{Tx, owned, push};
use crate::postgres::ids;
use crate::postgres::session::Step;
use crate::rules;
use crate::rules::failure::{Failure, Stop};
use crate::rules::notice::Receipted;
use crate::rules::value::{Params, Row, Value};
use crate::rules::{EventRow, event_row};
use crate::sqlite::dedup::keep_until_ms;
use crate::sqlite::state::{Head, State};
use std::sync::Arc;
use switchboard_core::event::StoredEvent;
use switchboard_core::ids::{EventId, InstanceNo, StreamId, VaultId};
use switchboard_core::log::{Entry, event_digest};
use switchboard_core::time::WallMs;
use switchboard_core::write::{Appended, Dedup, Receipt};

/// Remembered ids looked at for each one that may be forgotten.
const LOOK_FACTOR: usize = 4;

const NOW_MS: &str = "SELECT (extract(epoch FROM clock_timestamp()) * 1000)::bigint";

impl rules::Tx for Tx<'_> {
    fn at_ms(&self) -> WallMs {
        self.at_ms
    }

    fn clock_ms(&mut self) -> Result<WallMs, Failure> {
        let now = self.one(NOW_MS, &[], |row| row.get(0))?;
        now.ok_or_else(|| Failure::Inconsistent("the database has no clock".into()))
    }

    fn state(&self) -> &State {
        self.state
    }

    fn state_mut(&mut self) -> &mut State {
        self.state
    }

    fn changes(&self) -> u64 {
        self.changes.get()
    }

    fn run(&self, sql: &'static str, params: Params<'_>) -> Result<usize, Failure> {
        self.forget(sql);
        let changed = self.send_behind(sql, params)?.changed;
        self.changed(changed);
        Ok(usize::try_from(changed).unwrap_or(usize::MAX))
    }

    fn later(&self, sql: &'static str, params: Params<'_>) -> Result<(), Failure> {
        self.forget(sql);
        // What goes now is not to come back with what waits.
        if sql.starts_with("DELETE FROM notices") && !self.waiting.borrow().notice_order.is_empty() {
            self.flush(sql)?;
        }
        self.waiting.borrow_mut().steps.push(Step::One(sql, owned(params)));
        self.changed(1);
        Ok(())
    }

    fn each(
        &self,
        sql: &'static str,
        params: Params<'_>,
        take: &mut dyn FnMut(&dyn Row) -> Result<(), Failure>,
    ) -> Result<(), Failure> {
        let answer = self.send_behind(sql, params)?;
        if !sql.starts_with("SELECT") {
            self.forget(sql);
            self.changed(answer.changed);
        }
        answer.rows.iter().try_for_each(|row| take(row))
    }

    fn create_stream(&mut self, head: Head) -> Result<StreamId, Stop> {
        if !self.locked_directory {
            return Err(Failure::Conflict.into());
        }
        self.changes_directory = true;
        let stream = rules::create_stream(self, head)?;
        self.locked_streams.insert(stream.0);
        Ok(stream)
    }

    fn store(
        &mut self,
        stream: StreamId,
        mut event: StoredEvent,
        begins_thread: bool,
        dedup: Option<&Dedup>,
    ) -> Result<Arc<StoredEvent>, Failure> {
        let head = self.state.streams.get_mut(&stream.0);
        let head = head.ok_or_else(|| Failure::Inconsistent(format!("stream {} is unknown", stream.0)))?;
        if !self.locked_streams.contains(&stream.0) {
            return Err(Failure::Inconsistent(format!("stream {} was not locked", stream.0)));
        }
        head.last += 1;
        let swarm = head.swarm;
        event.id = EventId { stream, seq: head.last };
        if begins_thread {
            event.thread = event.id;
        }
        let int = |number: Option<i64>| number.map_or(Value::Null, Value::Int);
        let text = |text: Option<&str>| text.map_or(Value::Null, |text| Value::Text(text.to_owned().into()));
        let to = event.to.as_ref();
        let row = [
            Value::Int(event.id.row()),
            Value::Int(event.kind as i64),
            Value::Int(event.at_ms),
            Value::Int(event.expires_at_ms),
            int((!begins_thread).then(|| event.thread.row())),
            int(event.reply_to.map(EventId::row)),
            Value::Int(event.from_instance.0.into()),
            text(Some(&event.from_agent)),
            int(to.map(|to| to.instance.0.into())),
            text(to.map(|to| to.agent.as_str())),
            text(dedup.map(|dedup| dedup.client_id.as_str())),
            dedup.map_or(Value::Null, |dedup| Value::Blob(dedup.digest.to_vec().into())),
            Value::Blob(event.data.to_vec().into()),
        ];
        push(&mut self.waiting.borrow_mut().events, row);
        let known = EventRow {
            kind: event.kind as u8,
            thread: event.thread,
            from_instance: event.from_instance,
            from_agent: event.from_agent.clone(),
            to: to.map(|to| (to.instance, to.agent.clone())),
            client_id: dedup.map(|dedup| dedup.client_id.clone()),
            expires_at_ms: event.expires_at_ms,
        };
        self.known.borrow_mut().events.insert(event.id.row(), Some(known));
        let by = (!swarm).then_some(event.from_instance);
        let digest = event_digest(&event);
        self.note(&Entry::Event { id: event.id, kind: event.kind, by, digest });
        self.moved(stream);
        let event = Arc::new(event);
        self.appended.push(Arc::clone(&event));
        Ok(event)
    }

    fn moved(&mut self, stream: StreamId) {
        self.moved.insert(stream.0);
        self.changed(1);
    }

    fn used_id(&mut self, of: InstanceNo, client_id: &str) -> Result<Option<([u8; 16], Appended)>, Failure> {
        let found = self.id_row(of, client_id)?;
        if found.is_some() || !self.state.hashed_ids {
            return Ok(found);
        }
        self.id_row(ids::HASHED, &ids::hash_of(of, client_id))
    }

    fn remember_id(&mut self, of: InstanceNo, dedup: &Dedup, first: &Appended) -> Result<(), Failure> {
        let row = [
            Value::Int(of.0.into()),
            Value::Text(dedup.client_id.clone().into()),
            Value::Blob(dedup.digest.to_vec().into()),
            Value::Int(first.id.row()),
            Value::Int(first.thread.row()),
            Value::Int(first.at_ms),
            Value::Int(first.expires_at_ms),
        ];
        push(&mut self.waiting.borrow_mut().ids, row);
        if self.known.borrow().taken_for_unused.contains(&(of.0, dedup.client_id.clone())) {
            self.unproven_ids.set(self.unproven_ids.get().saturating_sub(1));
        }
        let first = Appended { repeat: true, ..*first };
        self.known.borrow_mut().ids.insert((of.0, dedup.client_id.clone()), Some((dedup.digest, first)));
        Ok(())
    }

    // An index on age would cost every append; instead each sweep looks through the next part of the table.
    fn sweep_ids(&mut self, _: usize, room: &mut usize) -> Result<(), Failure> {
        let look = room.saturating_mul(LOOK_FACTOR);
        let (instance, client_id) = self.state.ids_swept.clone();
        let sql = "SELECT instance, client_id, at_ms, expires_at_ms FROM dedup
                   WHERE (instance, client_id) > (?, ?) ORDER BY instance, client_id LIMIT ?";
        let now = self.at_ms;
        let rows =
            self.all(sql, rules::value::values![instance, client_id, rules::sql_limit(look)], |row| {
                let over = keep_until_ms(row.get(2)?, row.get(3)?) <= now;
                Ok((row.get::<u32>(0)?, row.get::<String>(1)?, over))
            })?;
        let complete = rows.len() < look;
        let mut last = None;
        for (instance, client_id, over) in rows {
            if over && *room == 0 {
                break;
            }
            if over {
                let sql = "DELETE FROM dedup WHERE instance = ? AND client_id = ?";
                *room -= self.run(sql, rules::value::values![instance, client_id])?;
            }
            last = Some((instance, client_id));
        }
        self.state.ids_swept = last.filter(|_| !complete || *room == 0).unwrap_or_default();
        Ok(())
    }

    fn add_reply(&mut self, thread: EventId, event: EventId) -> Result<(), Failure> {
        let row = [Value::Int(thread.row()), Value::Int(event.row())];
        push(&mut self.waiting.borrow_mut().replies, row);
        Ok(())
    }

    fn event(&mut self, id: EventId) -> Result<Option<EventRow>, Failure> {
        if let Some(known) = self.known.borrow().events.get(&id.row()) {
            return Ok(known.clone());
        }
        self.one(rules::EVENT_ROW, rules::value::values![id.row()], |row| event_row(id, row))
    }

    fn receipt_state(&mut self, event: EventId, by: (InstanceNo, &str)) -> Result<Option<u8>, Failure> {
        if let Some(known) = self.known.borrow().receipts.get(&(event.row(), by.0.0, by.1.to_owned())) {
            return Ok(*known);
        }
        self.one(rules::RECEIPT_STATE, rules::value::values![event.row(), by.0.0, by.1], |row| row.get(0))
    }

    fn put_receipt(&mut self, receipt: &Receipt) -> Result<(), Failure> {
        let key = (receipt.event.row(), receipt.instance.0, receipt.agent.clone());
        let state = receipt.state as u8;
        self.known.borrow_mut().receipts.insert(key.clone(), Some(state));
        self.waiting.borrow_mut().receipts.insert(key, (state, self.at_ms));
        self.changed(1);
        Ok(())
    }

    fn announcers(&mut self, vault: VaultId, agent: &str, since: WallMs) -> Result<Vec<InstanceNo>, Failure> {
        if let Some(known) = self.known.borrow().names.get(&(vault, agent.to_owned())) {
            let lately = known.iter().filter(|(_, seen_ms, state)| *seen_ms >= since || *state != 3);
            return Ok(lately.map(|(instance, ..)| *instance).collect());
        }
        self.all(rules::ANNOUNCERS, rules::value::values![vault.0, agent, since], |row| {
            row.get(0).map(InstanceNo)
        })
    }

    fn next_notice(&mut self) -> Result<i64, Failure> {
        self.lock_head(self.take_waiting())?;
        self.changed(1);
        self.last_notice.set(self.last_notice.get() + 1);
        Ok(self.last_notice.get())
    }

    fn status_notice(&mut self, receipt: &Receipt, of: &Receipted) -> Result<(), Failure> {
        let key = (receipt.event.row(), receipt.instance.0, receipt.agent.clone());
        let mut waiting = self.waiting.borrow_mut();
        // A later one goes in place of the one before, behind what was queued meanwhile.
        waiting.notice_order.retain(|before| *before != key);
        waiting.notice_order.push(key.clone());
        waiting.notices.insert(key, (receipt.clone(), of.clone(), self.at_ms));
        drop(waiting);
        self.changed(1);
        Ok(())
    }

    fn notices_sent(&mut self, notices: &[i64]) -> Result<(), Failure> {
        self.waiting.borrow_mut().sent.extend(notices);
        self.changed(u64::from(!notices.is_empty()));
        Ok(())
    }

    fn put_positions(
        &mut self,
        instance: InstanceNo,
        agent: &str,
        positions: &[(StreamId, u64)],
    ) -> Result<(), Failure> {
        let waiting = &mut *self.waiting.borrow_mut();
        for (stream, position) in positions {
            let known = waiting.positions.entry((instance.0, agent.to_owned(), stream.0)).or_default();
            *known = position.cast_signed().max(*known);
        }
        self.changed(u64::from(!positions.is_empty()));
        Ok(())
    }

    fn next_version(&mut self) -> i64 {
        self.state.directory_version += 1;
        self.state.directory_version.cast_signed()
    }

    fn probe(&mut self) -> Result<(), Failure> {
        self.probe_ms = Some(self.at_ms);
        self.changed(1);
        Ok(())
    }

    fn note(&mut self, entry: &Entry) {
        entry.encode(&mut self.entries);
        self.changed(1);
    }
}
