//! The rules on SQLite: values and rows, and the transaction as the rules see it.

use super::super::state::{Counter, Head, State};
use super::super::tx::Tx;
use super::{append, sweep};
use crate::rules;
use crate::rules::failure::{Applied, Failure, Stop};
use crate::rules::notice::{self, Receipted};
use crate::rules::value::{Params, Row, Value};
use rusqlite::types::{ToSqlOutput, ValueRef};
use rusqlite::{OptionalExtension as _, ToSql, params_from_iter};
use std::borrow::Cow;
use std::sync::Arc;
use switchboard_core::event::StoredEvent;
use switchboard_core::ids::{EventId, InstanceNo, StreamId};
use switchboard_core::log::Entry;
use switchboard_core::time::WallMs;
use switchboard_core::write::{Append, Appended, Dedup, Receipt};

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

fn values_of<'p>(params: Params<'p>) -> impl rusqlite::Params + 'p {
    params_from_iter(params.iter().map(|param| param.as_value()))
}

impl rules::Tx for Tx<'_, '_> {
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

    fn append(&mut self, append: &Append) -> Applied {
        append::append(self, append)
    }

    fn sweep(&mut self, limit: usize) -> Applied {
        sweep::sweep(self, limit)
    }

    fn create_stream(&mut self, head: Head) -> Result<StreamId, Stop> {
        append::create_stream(self, head)
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
        let first = self.hot.find_dedup.query_row(rusqlite::params![instance.0, client_id], |row| {
            let appended = Appended {
                id: EventId::from_row(row.get(1)?),
                thread: EventId::from_row(row.get(2)?),
                at_ms: row.get(3)?,
                expires_at_ms: row.get(4)?,
                repeat: true,
            };
            Ok((row.get(0)?, appended))
        });
        Ok(first.optional()?)
    }

    fn remember_id(
        &mut self,
        instance: InstanceNo,
        dedup: &Dedup,
        event: &StoredEvent,
    ) -> Result<(), Failure> {
        let key = rusqlite::params![
            instance.0,
            dedup.client_id,
            dedup.digest,
            event.id.row(),
            event.thread.row(),
            event.at_ms,
            event.expires_at_ms
        ];
        self.hot.insert_dedup.execute(key)?;
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
