//! The rules on SQLite: values and rows, and the transaction as the rules see it.

use super::super::dedup::{Entry as IdEntry, key};
use super::super::state::{Counter, Head, State};
use super::super::tx::Tx;
use crate::rules;
use crate::rules::failure::{Failure, Stop};
use crate::rules::notice::{self, Receipted};
use crate::rules::value::{Params, Row, Value};
use rusqlite::types::{ToSqlOutput, ValueRef};
use rusqlite::{ToSql, params_from_iter};
use std::borrow::Cow;
use std::sync::Arc;
use switchboard_core::event::StoredEvent;
use switchboard_core::ids::{InstanceNo, StreamId};
use switchboard_core::log::Entry;
use switchboard_core::time::WallMs;
use switchboard_core::write::{Appended, Dedup, Receipt};

impl ToSql for Value<'_> {
    fn to_sql(&self) -> rusqlite::Result<ToSqlOutput<'_>> {
        Ok(ToSqlOutput::Borrowed(match self {
            Value::Null => ValueRef::Null,
            Value::Int(number) => ValueRef::Integer(*number),
            Value::Text(text) => ValueRef::Text(text.as_bytes()),
            Value::Blob(bytes) => ValueRef::Blob(bytes),
        }))
    }
}

impl Row for rusqlite::Row<'_> {
    fn value(&self, column: usize) -> Result<Value<'_>, Failure> {
        Ok(match self.get_ref(column)? {
            ValueRef::Null => Value::Null,
            ValueRef::Integer(number) => Value::Int(number),
            ValueRef::Text(_) => {
                Value::Text(Cow::Borrowed(self.get_ref(column)?.as_str().map_err(|error| {
                    rusqlite::Error::FromSqlConversionFailure(
                        column,
                        rusqlite::types::Type::Text,
                        Box::new(error),
                    )
                })?))
            }
            ValueRef::Blob(bytes) => Value::Blob(Cow::Borrowed(bytes)),
            ValueRef::Real(_) => return Err(Failure::Inconsistent(format!("column {column} is a fraction"))),
        })
    }
}

fn values_of(params: Params<'_>) -> impl rusqlite::Params + '_ {
    params_from_iter(params.iter().map(|param| param.as_value()))
}

impl rules::Tx for Tx<'_> {
    fn at_ms(&self) -> WallMs {
        self.at_ms
    }

    fn state(&self) -> &State {
        self.state
    }

    fn state_mut(&mut self) -> &mut State {
        self.state
    }

    fn changes(&self) -> u64 {
        self.conn.total_changes()
    }

    fn run(&self, sql: &'static str, params: Params<'_>) -> Result<usize, Failure> {
        Ok(Tx::run(self, sql, values_of(params))?)
    }

    fn each(
        &self,
        sql: &'static str,
        params: Params<'_>,
        take: &mut dyn FnMut(&dyn Row) -> Result<(), Failure>,
    ) -> Result<(), Failure> {
        let mut statement = self.conn.prepare_cached(sql)?;
        let mut rows = statement.query(values_of(params))?;
        while let Some(row) = rows.next()? {
            take(row)?;
        }
        Ok(())
    }

    fn create_stream(&mut self, head: Head) -> Result<StreamId, Stop> {
        rules::create_stream(self, head)
    }

    fn store(
        &mut self,
        stream: StreamId,
        event: StoredEvent,
        begins_thread: bool,
        dedup: Option<&Dedup>,
    ) -> Result<Arc<StoredEvent>, Failure> {
        Tx::store(self, stream, event, begins_thread, dedup)
    }

    fn moved(&mut self, stream: StreamId) {
        Tx::moved(self, stream);
    }

    fn used_id(
        &mut self,
        instance: InstanceNo,
        client_id: &str,
    ) -> Result<Option<([u8; 16], Appended)>, Failure> {
        let first = self.ids.find(self.conn, &key(instance, client_id), self.at_ms)?;
        Ok(first.map(|first| (first.digest, first.repeat())))
    }

    fn remember_id(&mut self, instance: InstanceNo, dedup: &Dedup, first: &Appended) -> Result<(), Failure> {
        self.ids.insert(key(instance, &dedup.client_id), IdEntry::new(dedup, first));
        Ok(())
    }

    // What stands in memory alone is made again from the rows of its messages: it is written before they go.
    fn messages_go(&mut self, ids: &[(InstanceNo, String)]) -> Result<(), Failure> {
        if ids.iter().any(|(instance, id)| self.ids.is_recent(&key(*instance, id))) {
            self.ids.flush_all(self.conn, self.state.commit + 1, self.at_ms)?;
        }
        Ok(())
    }

    fn sweep_ids(&mut self, limit: usize, _: &mut usize) -> Result<(), Failure> {
        if self.ids.sweep(self.conn, self.at_ms, limit)? {
            self.changed();
        }
        Ok(())
    }

    fn next_notice(&mut self) -> Result<i64, Failure> {
        Tx::next_notice(self)
    }

    fn status_notice(&mut self, receipt: &Receipt, of: &Receipted) -> Result<(), Failure> {
        notice::status(self, receipt, of)
    }

    fn next_version(&mut self) -> i64 {
        Tx::next_version(self)
    }

    fn probe(&mut self) -> Result<(), Failure> {
        Ok(self.set_counter(Counter::Probe as i64, self.at_ms, 0, None)?)
    }

    fn note(&mut self, entry: &Entry) {
        Tx::note(self, entry);
    }
}
