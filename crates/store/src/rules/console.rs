//! Who may enter the console: links that work once, passwords, sessions.

use super::failure::{Applied, Failure, Stop};
use super::tx::{Tx, found};
use super::value::{Row, values};
use switchboard_core::console::{
    ConsoleWrite, LINK_MS, LINKS_MAX, LoginRow, NewSession, SESSION_IDLE_MS, SESSION_MS, SESSIONS_MAX,
    SessionRow,
};
use switchboard_core::digest::Digest;
use switchboard_core::ids::PersonNo;
use switchboard_core::log::Entry;
use switchboard_core::time::WallMs;
use switchboard_core::write::{Outcome, Refusal};

/// A good session by the hash of its secret; behind it the time.
pub(crate) const SESSION: &str =
    "SELECT s.session_id, s.person, p.name, s.browser, s.created_ms, s.seen_ms, s.ends_ms
     FROM console_sessions s JOIN persons p ON p.id = s.person WHERE s.hash = $1 AND s.ends_ms > $2";
/// The good sessions of a person; behind it the time.
pub(crate) const SESSIONS: &str =
    "SELECT s.session_id, s.person, p.name, s.browser, s.created_ms, s.seen_ms, s.ends_ms
     FROM console_sessions s JOIN persons p ON p.id = s.person WHERE s.person = $1 AND s.ends_ms > $2
     ORDER BY s.seen_ms DESC, s.created_ms DESC, s.session_id";
/// The password of who has this name.
pub(crate) const LOGIN: &str = "SELECT c.person, c.verifier FROM console_passwords c JOIN persons p ON p.id = c.person WHERE p.name = $1";

/// A row of [`SESSION`] or [`SESSIONS`].
pub(crate) fn session_row(row: &dyn Row) -> Result<SessionRow, Failure> {
    Ok(SessionRow {
        session_id: row.get(0)?,
        person: PersonNo(row.get(1)?),
        person_name: row.get(2)?,
        browser: row.get(3)?,
        created_ms: row.get(4)?,
        seen_ms: row.get(5)?,
        ends_ms: row.get(6)?,
    })
}

/// A row of [`LOGIN`].
pub(crate) fn login_row(row: &dyn Row) -> Result<LoginRow, Failure> {
    Ok(LoginRow { person: PersonNo(row.get(0)?), verifier: row.get(1)? })
}

pub(super) fn apply(tx: &mut impl Tx, write: &ConsoleWrite) -> Applied {
    match write {
        ConsoleWrite::MintLink { person, hash } => mint(tx, *person, hash),
        ConsoleWrite::Enter { link, session } => enter(tx, link, session),
        ConsoleWrite::SignIn { person, verifier, session } => sign_in(tx, *person, verifier, session),
        ConsoleWrite::Touch { session } => touch(tx, session),
        ConsoleWrite::End { person, session_id } => end(tx, *person, session_id),
        ConsoleWrite::EndOthers { person, keep } => {
            end_others(tx, *person, keep)?;
            Ok(Outcome::Done)
        }
        ConsoleWrite::SetPassword { person, verifier, keep } => set_password(tx, *person, verifier, keep),
    }
}

fn note(tx: &mut impl Tx, verb: &str, person: PersonNo, subject: &str) {
    tx.note(&Entry::admitted(verb, format!("person {}", person.0), subject));
}

fn mint(tx: &mut impl Tx, person: PersonNo, hash: &Digest) -> Applied {
    found(tx.one("SELECT 1 FROM persons WHERE id = ?", values![person.0], |_| Ok(()))?)?;
    let sql = "SELECT count(*) FROM console_links WHERE person = ? AND expires_at_ms > ?";
    let waiting: Option<u32> = tx.one(sql, values![person.0, tx.at_ms()], |row| row.get(0))?;
    if waiting.unwrap_or(0) >= LINKS_MAX {
        return Err(Refusal::Full { what: "console_links", limit: u64::from(LINKS_MAX) }.into());
    }
    let sql = "INSERT INTO console_links (hash, person, expires_at_ms) VALUES (?, ?, ?)";
    tx.run(sql, values![hash, person.0, tx.at_ms().saturating_add(LINK_MS)])?;
    note(tx, "console.link", person, "");
    Ok(Outcome::Done)
}

fn enter(tx: &mut impl Tx, link: &Digest, session: &NewSession) -> Applied {
    let sql = "SELECT person FROM console_links WHERE hash = ? AND expires_at_ms > ?";
    let person = found(tx.one(sql, values![link, tx.at_ms()], |row| row.get(0))?)?;
    tx.run("DELETE FROM console_links WHERE hash = ?", values![link])?;
    begin(tx, "console.enter", PersonNo(person), session)
}

fn sign_in(tx: &mut impl Tx, person: PersonNo, verifier: &str, session: &NewSession) -> Applied {
    let sql = "SELECT 1 FROM console_passwords WHERE person = ? AND verifier = ?";
    found(tx.one(sql, values![person.0, verifier], |_| Ok(()))?)?;
    begin(tx, "console.sign_in", person, session)
}

fn begin(tx: &mut impl Tx, verb: &str, person: PersonNo, session: &NewSession) -> Applied {
    let sql = "SELECT session_id FROM console_sessions WHERE person = ? ORDER BY seen_ms DESC, session_id";
    let known: Vec<String> = tx.all(sql, values![person.0], |row| row.get(0))?;
    for oldest in known.iter().skip(SESSIONS_MAX - 1) {
        remove(tx, person, oldest)?;
    }
    let sql = "INSERT INTO console_sessions (hash, session_id, person, browser, created_ms, seen_ms, ends_ms)
               VALUES (?, ?, ?, ?, ?, ?, ?)";
    let NewSession { hash, session_id, browser } = session;
    let at = tx.at_ms();
    tx.run(sql, values![hash, session_id, person.0, browser, at, at, ends_ms(at, at)])?;
    note(tx, verb, person, session_id);
    Ok(Outcome::Entered { person })
}

fn ends_ms(created_ms: WallMs, seen_ms: WallMs) -> WallMs {
    created_ms.saturating_add(SESSION_MS).min(seen_ms.saturating_add(SESSION_IDLE_MS))
}

fn touch(tx: &mut impl Tx, session: &Digest) -> Applied {
    let sql = "SELECT created_ms, seen_ms FROM console_sessions WHERE hash = ? AND ends_ms > ?";
    let times = tx.one(sql, values![session, tx.at_ms()], |row| Ok((row.get(0)?, row.get::<WallMs>(1)?)))?;
    let (created_ms, before_ms) = found(times)?;
    let seen_ms = before_ms.max(tx.at_ms());
    let sql = "UPDATE console_sessions SET seen_ms = ?, ends_ms = ? WHERE hash = ?";
    tx.run(sql, values![seen_ms, ends_ms(created_ms, seen_ms), session])?;
    Ok(Outcome::Done)
}

fn end(tx: &mut impl Tx, person: PersonNo, session_id: &str) -> Applied {
    let sql = "SELECT 1 FROM console_sessions WHERE person = ? AND session_id = ?";
    found(tx.one(sql, values![person.0, session_id], |_| Ok(()))?)?;
    remove(tx, person, session_id)?;
    Ok(Outcome::Done)
}

fn remove(tx: &mut impl Tx, person: PersonNo, session_id: &str) -> Result<(), Stop> {
    tx.run("DELETE FROM console_sessions WHERE session_id = ?", values![session_id])?;
    note(tx, "console.sign_out", person, session_id);
    Ok(())
}

fn end_others(tx: &mut impl Tx, person: PersonNo, keep: &str) -> Result<(), Stop> {
    let sql =
        "SELECT session_id FROM console_sessions WHERE person = ? AND session_id <> ? ORDER BY session_id";
    let others: Vec<String> = tx.all(sql, values![person.0, keep], |row| row.get(0))?;
    others.iter().try_for_each(|other| remove(tx, person, other))
}

fn set_password(tx: &mut impl Tx, person: PersonNo, verifier: &str, keep: &str) -> Applied {
    let sql = "SELECT 1 FROM console_sessions WHERE person = ? AND session_id = ? AND ends_ms > ?";
    found(tx.one(sql, values![person.0, keep, tx.at_ms()], |_| Ok(()))?)?;
    let sql = "INSERT INTO console_passwords (person, verifier, changed_ms) VALUES (?, ?, ?)
               ON CONFLICT (person) DO UPDATE SET verifier = excluded.verifier, changed_ms = excluded.changed_ms";
    tx.run(sql, values![person.0, verifier, tx.at_ms()])?;
    note(tx, "console.password", person, keep);
    end_others(tx, person, keep)?;
    Ok(Outcome::Done)
}
