//! The writer's connection: statements prepared once, and several of them in one round trip.

use super::failure::{Kind, is_lock_timeout, kind, told};
use super::hurry::Hurry;
use super::value::dialect;
use crate::rules::failure::Failure;
use crate::rules::value::Value;
use futures_util::FutureExt as _;
use futures_util::future::BoxFuture;
use std::cell::{Cell, RefCell};
use std::collections::HashMap;
use std::future::poll_fn;
use std::rc::Rc;
use std::task::Poll;
use std::time::Duration;
use tokio::runtime::Runtime;
use tokio_postgres::types::ToSql;
use tokio_postgres::{Client, Row, Statement};

/// How long the server lets a statement of the writer run: longer than it waits for a lock.
pub(crate) const STATEMENT: &str = "SET statement_timeout = 12000";
/// How long one round trip may take: longer than the server lets a statement run.
const ROUND_TRIP: Duration = Duration::from_secs(15);

/// One step of a round trip.
#[derive(Debug)]
pub(crate) enum Step {
    /// A statement without parameters and answer.
    Plain(&'static str),
    /// A statement of the shared dialect.
    One(&'static str, Vec<Value<'static>>),
    /// A statement over arrays, one per column.
    Many(&'static str, Vec<Vec<Value<'static>>>),
    /// A statement over single values and arrays.
    Mixed(&'static str, Vec<Arg>),
}

/// A parameter of [`Step::Mixed`].
#[derive(Debug)]
pub(crate) enum Arg {
    One(Value<'static>),
    Many(Vec<Value<'static>>),
}

impl Arg {
    fn as_sql(&self) -> &(dyn ToSql + Sync) {
        match self {
            Self::One(value) => value,
            Self::Many(values) => values,
        }
    }
}

/// What a step gave.
#[derive(Debug, Default)]
pub(crate) struct Done {
    pub(crate) rows: Vec<Row>,
    pub(crate) changed: u64,
}

/// A connection with the runtime that serves it, both on the writer's thread.
pub(crate) struct Session {
    runtime: Rc<Runtime>,
    client: Client,
    hurry: Hurry,
    statements: RefCell<HashMap<&'static str, Statement>>,
    // Set when an answer did not come: what the server does is not known.
    silent: Cell<bool>,
}

type Running<'a> = BoxFuture<'a, Result<Done, tokio_postgres::Error>>;

impl Session {
    pub(crate) fn new(runtime: Rc<Runtime>, client: Client, hurry: Hurry) -> Self {
        Self { runtime, client, hurry, statements: RefCell::default(), silent: Cell::new(false) }
    }

    /// Whether it can still be used.
    pub(crate) fn is_open(&self) -> bool {
        !self.silent.get() && !self.client.is_closed()
    }

    /// Sends all steps at once and waits for their answers, in order. The first error is the one that matters: the server
    /// refuses everything behind it until the transaction ends.
    pub(crate) fn run(&self, steps: &[Step]) -> Result<Vec<Done>, Failure> {
        let statements = steps.iter().map(|step| self.prepared(step)).collect::<Result<Vec<_>, _>>()?;
        let running = steps.iter().zip(statements).map(|(step, statement)| self.start(step, statement));
        self.wait(in_order(running.collect()))
    }

    /// One step.
    pub(crate) fn one(&self, step: Step) -> Result<Done, Failure> {
        Ok(self.run(&[step])?.pop().unwrap_or_default())
    }

    fn wait<T>(&self, work: impl Future<Output = Result<T, Failure>>) -> Result<T, Failure> {
        let waited = self.runtime.block_on(self.hurry.within(ROUND_TRIP, work));
        waited.unwrap_or_else(|| {
            self.silent.set(true);
            Err(Failure::Lost("the database does not answer".into()))
        })
    }

    fn prepared(&self, step: &Step) -> Result<Option<Statement>, Failure> {
        let (Step::One(sql, _) | Step::Many(sql, _) | Step::Mixed(sql, ..)) = step else { return Ok(None) };
        if let Some(known) = self.statements.borrow().get(sql) {
            return Ok(Some(known.clone()));
        }
        let text = dialect(sql);
        let statement = self.wait(async { Ok(self.client.prepare(&text).await?) })?;
        self.statements.borrow_mut().insert(sql, statement.clone());
        Ok(Some(statement))
    }

    fn start<'a>(&'a self, step: &'a Step, statement: Option<Statement>) -> Running<'a> {
        let client = &self.client;
        async move {
            let params: Vec<&(dyn ToSql + Sync)> = match step {
                Step::Plain(sql) => return client.batch_execute(sql).await.map(|()| Done::default()),
                Step::One(_, params) => params.iter().map(|param| param as _).collect(),
                Step::Many(_, columns) => columns.iter().map(|column| column as _).collect(),
                Step::Mixed(_, args) => args.iter().map(Arg::as_sql).collect(),
            };
            let Some(statement) = statement else { return Ok(Done::default()) };
            if statement.columns().is_empty() {
                return Ok(Done { rows: Vec::new(), changed: client.execute(&statement, &params).await? });
            }
            let rows = client.query(&statement, &params).await?;
            Ok(Done { changed: rows.len() as u64, rows })
        }
        .boxed()
    }
}

// Polled in order, so that they are sent in order: the driver sends a request when its future is first polled.
async fn in_order(running: Vec<Running<'_>>) -> Result<Vec<Done>, Failure> {
    let mut waiting: Vec<_> = running.into_iter().map(Some).collect();
    let mut done: Vec<_> = waiting.iter().map(|_| Done::default()).collect();
    let mut failed: Option<(usize, tokio_postgres::Error)> = None;
    poll_fn(|cx| {
        let mut left = false;
        for (at, slot) in waiting.iter_mut().enumerate() {
            let Some(future) = slot else { continue };
            match future.poll_unpin(cx) {
                Poll::Pending => left = true,
                Poll::Ready(answer) => {
                    *slot = None;
                    match answer {
                        Ok(answer) => done[at] = answer,
                        Err(error) if failed.as_ref().is_none_or(|(first, _)| at < *first) => {
                            failed = Some((at, error));
                        }
                        Err(_) => {}
                    }
                }
            }
        }
        if left { Poll::Pending } else { Poll::Ready(()) }
    })
    .await;
    match failed {
        None => Ok(done),
        Some((_, error)) if is_lock_timeout(&error) => Err(Failure::Locked(told(&error))),
        Some((_, error)) if kind(&error) == Kind::Conflict => Err(Failure::Conflict),
        Some((_, error)) => Err(error.into()),
    }
}
