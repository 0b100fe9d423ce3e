//! Full-text search over the index beside the database.

use rusqlite::{Connection, OptionalExtension as _, params};
use switchboard_core::ids::{EventId, InstanceNo, StreamId};
use switchboard_core::limits::SCAN_ROWS_MAX;
use switchboard_core::port::store::SearchScope;

use super::super::state::row_range;

/// Streams one search looks into.
const STREAMS_MAX: usize = 1000;
/// Words of a query that count.
const WORDS_MAX: usize = 16;

/// Name under which readers attach the index.
pub(crate) const SCHEMA: &str = "search";

pub(crate) fn search(
    conn: &Connection,
    words: &str,
    scope: &SearchScope,
    limit: usize,
) -> rusqlite::Result<Vec<EventId>> {
    let query = quoted(words);
    if query.is_empty() {
        return Ok(Vec::new());
    }
    let (mut found, mut looked) = (Vec::new(), 0);
    for stream in scope.streams.iter().take(STREAMS_MAX) {
        in_stream(conn, &query, *stream, (scope.instance, limit), &mut looked, &mut found)?;
    }
    // Newest first, whatever the stream.
    found.sort_unstable_by(|a, b| b.cmp(a));
    Ok(found.into_iter().take(limit).map(|(_, id)| id).collect())
}

/// What the user typed as a query for all of its words; nothing in it is syntax.
fn quoted(words: &str) -> String {
    let words = words.split_whitespace().filter(|word| word.chars().any(char::is_alphanumeric));
    let words =
        words.take(WORDS_MAX).map(|word| format!("\"{}\"", word.replace('"', "\"\"").replace('\0', "")));
    words.collect::<Vec<_>>().join(" ")
}

fn in_stream(
    conn: &Connection,
    query: &str,
    stream: StreamId,
    (reader, limit): (Option<InstanceNo>, usize),
    looked: &mut usize,
    found: &mut Vec<(i64, EventId)>,
) -> rusqlite::Result<()> {
    let sql = "SELECT rowid FROM search.fts WHERE fts MATCH ? AND rowid BETWEEN ? AND ? ORDER BY rowid DESC";
    let mut matches = conn.prepare_cached(sql)?;
    let mut row_of =
        conn.prepare_cached("SELECT at_ms, from_instance, to_instance FROM events WHERE id = ?")?;
    let (from, to) = row_range(stream);
    let mut rows = matches.query(params![query, from, to])?;
    let mut visible = 0;
    while visible < limit
        && *looked < SCAN_ROWS_MAX
        && let Some(row) = rows.next()?
    {
        *looked += 1;
        let id: i64 = row.get(0)?;
        let event = row_of.query_row([id], |row| {
            Ok((row.get::<_, i64>(0)?, row.get::<_, u32>(1)?, row.get::<_, Option<u32>>(2)?))
        });
        let Some((at_ms, from, to)) = event.optional()? else { continue };
        if reader.is_none_or(|reader| to.is_none_or(|to| to == reader.0) || from == reader.0) {
            visible += 1;
            found.push((at_ms, EventId::from_row(id)));
        }
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn nothing_a_user_types_is_syntax() {
        assert_eq!(quoted(r#"retry OR "budget* -x NEAR(a)"#), r#""retry" "OR" """budget*" "-x" "NEAR(a)""#);
        assert_eq!(quoted(" -- ** \0 "), "");
    }
}
