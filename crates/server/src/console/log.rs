//! *Log*: who did what; filtered, verified, exported.

use super::form::Signed;
use super::visitor::Visitor;
use super::{Shown, html};
use crate::Doors;
use crate::admin::log::entries;
use crate::bus::read::query;
use axum::body::{Body, Bytes};
use axum::extract::{RawQuery, State};
use axum::http::header::{CONTENT_DISPOSITION, CONTENT_TYPE};
use axum::response::IntoResponse as _;
use futures_util::stream::try_unfold;
use serde::Deserialize;
use std::io;
use switchboard_console::page::{Filter, LogEntry, LogPage, Verified};
use switchboard_console::shell::Section;
use switchboard_console::text::When;
use switchboard_core::port::store::StoreError;
use switchboard_engine::{audit, refusal};
use switchboard_protocol::{Detail, admin};

/// Lines of one page.
const LINES_MAX: usize = 100;
/// Records read at once.
const READ: u64 = 500;
/// Records looked at for one page when few of them fit.
const SCAN_MAX: u64 = 5000;

/// What of the log is asked for.
#[derive(Debug, Default, Deserialize)]
#[serde(deny_unknown_fields, default)]
pub(super) struct Asked {
    verb: String,
    about: String,
    result: String,
    before: Option<u64>,
}

impl Asked {
    fn fits(&self, entry: &admin::LogEntry) -> bool {
        let contains = |text: &str| text.to_lowercase().contains(&self.about.to_lowercase());
        (self.result.is_empty() || entry.result == self.result)
            && entry.verb.starts_with(self.verb.trim())
            && (self.about.is_empty() || contains(&entry.actor) || contains(&entry.subject))
    }

    /// The page of what is older than `before`.
    fn older(&self, before: u64) -> String {
        let pairs = [("verb", &self.verb), ("about", &self.about), ("result", &self.result)];
        let pairs = pairs.into_iter().filter(|(_, value)| !value.is_empty());
        let filter = pairs.map(|(name, value)| format!("&{name}={}", encode(value)));
        format!("/console/log?before={before}{}", filter.collect::<String>())
    }
}

/// Everything but unreserved characters as `%XX`.
pub(super) fn encode(text: &str) -> String {
    use std::fmt::Write as _;
    text.bytes().fold(String::with_capacity(text.len()), |mut out, byte| {
        if byte.is_ascii_alphanumeric() || b"-._~".contains(&byte) {
            out.push(char::from(byte));
        } else {
            let _ = write!(out, "%{byte:02X}");
        }
        out
    })
}

/// The page.
pub(super) async fn page(State(doors): State<Doors>, visitor: Visitor, RawQuery(raw): RawQuery) -> Shown {
    let raw =
        raw.map(|raw| raw.split('&').filter(|pair| !pair.starts_with("done=")).collect::<Vec<_>>().join("&"));
    let asked: Asked = query(raw)?;
    Ok(html(&show(&doors, &visitor, &asked, None).await?))
}

async fn show(
    doors: &Doors,
    visitor: &Visitor,
    asked: &Asked,
    verified: Option<Verified>,
) -> Result<LogPage, Detail> {
    let (lines, rest) = newest(doors, asked).await?;
    let filter = Filter {
        verb: asked.verb.as_str().into(),
        about: asked.about.as_str().into(),
        result: asked.result.clone(),
    };
    let older = (rest > 1).then(|| asked.older(rest));
    let entries = lines.into_iter().map(line).collect();
    Ok(LogPage { shell: visitor.shell(doors, Section::Log, "Log").await?, filter, entries, older, verified })
}

fn line(entry: admin::LogEntry) -> LogEntry {
    LogEntry {
        number: entry.seq,
        at: When(entry.at.to_string()),
        verb: entry.verb.into(),
        actor: entry.actor.into(),
        subject: entry.subject.into(),
        refused: entry.result == "refused",
        count: entry.count,
    }
}

/// Lines that fit, newest first, and the record before which there may be more.
async fn newest(doors: &Doors, asked: &Asked) -> Result<(Vec<admin::LogEntry>, u64), Detail> {
    let failed = |error: StoreError| refusal::store(&error);
    let store = doors.hub.store();
    let head = store.stats().await.map_err(failed)?.commits;
    let mut before = asked.before.unwrap_or(u64::MAX).min(head + 1);
    let floor = before.saturating_sub(SCAN_MAX);
    let mut found = Vec::new();
    while before > floor.max(1) {
        let after = before.saturating_sub(READ + 1);
        let limit = usize::try_from(before - after - 1).unwrap_or(0);
        let records = store.log(after, limit).await.map_err(failed)?;
        for record in records.iter().rev() {
            found.extend(entries(doors, record).into_iter().rev().filter(|entry| asked.fits(entry)));
            before = record.commit;
            if found.len() >= LINES_MAX {
                return Ok((found, before));
            }
        }
        before = after + 1;
    }
    Ok((found, before))
}

/// Verifies the whole chain, one at a time.
pub(super) async fn verify(State(doors): State<Doors>, Signed { visitor, fields }: Signed) -> Shown {
    fields.end()?;
    let Ok(_turn) = doors.console.verifying.try_lock() else {
        return Err(refusal::store(&StoreError::Overloaded).into());
    };
    let report = audit::verify_log(&doors.hub, |_| ()).await.map_err(|error| refusal::store(&error))?;
    let verified = Verified {
        entries: report.entries,
        checkpoints: report.checkpoints,
        broken: report.first_broken.map(|broken| (broken.seq, broken.why.into())),
    };
    if visitor.partial {
        return Ok(html(&verified));
    }
    Ok(html(&show(&doors, &visitor, &Asked::default(), Some(verified)).await?))
}

/// The whole log, one entry a line, as a file to keep.
pub(super) async fn export(State(doors): State<Doors>, _: Visitor) -> Shown {
    let name = format!("attachment; filename=\"switchboard-log-{}.jsonl\"", doors.hub.installation.org_id);
    let pages = try_unfold((doors, 0), |(doors, after)| async move {
        let limit = usize::try_from(READ).unwrap_or(0);
        let records = doors.hub.store().log(after, limit).await.map_err(io::Error::other)?;
        let Some(last) = records.last().map(|record| record.commit) else { return Ok(None) };
        let mut lines = Vec::new();
        for entry in records.iter().flat_map(|record| entries(&doors, record)) {
            serde_json::to_writer(&mut lines, &entry)?;
            lines.push(b'\n');
        }
        Ok::<_, io::Error>(Some((Bytes::from(lines), (doors, last))))
    });
    let headers =
        [(CONTENT_TYPE, "application/jsonl; charset=utf-8".to_owned()), (CONTENT_DISPOSITION, name)];
    Ok((headers, Body::from_stream(pages)).into_response())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_filter_stays_on_the_older_page() {
        let asked = Asked { verb: "bus.".into(), about: "a b&c".into(), ..Asked::default() };
        assert_eq!(asked.older(7), "/console/log?before=7&verb=bus.&about=a%20b%26c");
    }
}
