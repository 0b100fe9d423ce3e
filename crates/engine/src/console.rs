//! The console's door from within: one-time links, passwords, sessions. What a browser shows afterwards is what
//! [`crate::read`], [`crate::manage`] and the followers give everybody who may have it.
//!
//! A secret leaves the hub once, when it is made; the store keeps hashes (passwords: Argon2id). Guessing is bounded twice: by how
//! often a password may be wrong within [`WINDOW`], on each node, and by how many are verified at a time, since each costs 19 MiB.

use crate::credentials::bearer_hash;
use crate::hub::Hub;
use crate::once::Request;
use crate::refusal;
use argon2::password_hash::phc::PasswordHash;
use argon2::password_hash::{PasswordHasher as _, PasswordVerifier as _};
use argon2::{Algorithm, Argon2, Params, Version};
use parking_lot::Mutex;
use std::collections::HashMap;
use std::sync::Arc;
use std::time::Duration;
use switchboard_core::console::{BROWSER_CHARS_MAX, ConsoleWrite, NewSession, SESSION_TOUCH_MS, SessionRow};
use switchboard_core::digest::{Digest, framed, hmac};
use switchboard_core::ids::{PersonNo, base32};
use switchboard_core::random;
use switchboard_core::write::{Outcome, Write};
use switchboard_core::{ExposeSecret as _, SecretString};
use switchboard_protocol::text::strip_invisible;
use switchboard_protocol::{Code, Detail};
use tokio::sync::Semaphore;

/// Within which wrong passwords are counted.
pub const WINDOW: Duration = Duration::from_mins(15);
/// Wrong passwords for one name within [`WINDOW`].
pub const WRONG_PER_NAME_MAX: u32 = 10;
/// Wrong passwords in all within [`WINDOW`].
pub const WRONG_MAX: u32 = 100;
/// Shortest password, in characters.
pub const PASSWORD_CHARS_MIN: usize = 12;
/// Longest password, in characters.
pub const PASSWORD_CHARS_MAX: usize = 256;
/// Longest name that a sign-in may give, in characters.
pub const NAME_CHARS_MAX: usize = 100;
/// Passwords verified at a time.
const VERIFYING_MAX: usize = 2;
/// Memory of one verification in KiB, passes and lanes: the second recommendation of RFC 9106 as OWASP has it.
const ARGON2: (u32, u32, u32) = (19 * 1024, 2, 1);
/// Bytes of a password's salt.
const SALT_BYTES: usize = 16;

/// What the console keeps in memory.
#[derive(Debug)]
pub struct Desk {
    wrong: Mutex<Wrong>,
    /// Wrong links of mails, by what they claim to be for.
    wrong_links: Mutex<Wrong>,
    verifying: Arc<Semaphore>,
}

impl Default for Desk {
    fn default() -> Self {
        Self {
            wrong: Mutex::default(),
            wrong_links: Mutex::default(),
            verifying: Arc::new(Semaphore::new(VERIFYING_MAX)),
        }
    }
}

impl Desk {
    /// How long no link of this name is looked at, if too many were wrong.
    pub(crate) fn link_wait(&self, name: &Digest, now: Duration) -> Option<Duration> {
        self.wrong_links.lock().wait(name, now)
    }

    /// Counts a wrong link; `Err`: how long such ones are not even answered.
    pub(crate) fn link_was_wrong(&self, name: Digest, now: Duration) -> Result<(), Duration> {
        self.wrong_links.lock().take(name, now)
    }
}

/// Wrong passwords since `began`, on the monotonic clock.
#[derive(Debug, Default)]
struct Wrong {
    began: Duration,
    total: u32,
    by_name: HashMap<Digest, u32>,
}

impl Wrong {
    /// Counts an attempt as wrong until it proves right; `Err`: how long there is no other one.
    fn take(&mut self, name: Digest, now: Duration) -> Result<(), Duration> {
        if now.saturating_sub(self.began) >= WINDOW {
            *self = Self { began: now, ..Self::default() };
        }
        let of_name = self.by_name.get(&name).copied().unwrap_or(0);
        if of_name >= WRONG_PER_NAME_MAX || self.total >= WRONG_MAX {
            return Err((self.began + WINDOW).saturating_sub(now));
        }
        self.total += 1;
        self.by_name.insert(name, of_name + 1);
        Ok(())
    }

    /// How long there is no attempt for this name, whatever others do.
    fn wait(&self, name: &Digest, now: Duration) -> Option<Duration> {
        let end = self.began + WINDOW;
        let is_full = self.by_name.get(name).is_some_and(|count| *count >= WRONG_PER_NAME_MAX);
        (is_full && now < end).then(|| end.saturating_sub(now))
    }

    fn was_right(&mut self, name: &Digest) {
        self.total = self.total.saturating_sub(1);
        self.by_name.remove(name);
    }
}

/// A session that has begun, and the secret for the browser's cookie.
#[derive(Debug)]
pub struct Entered {
    /// The secret.
    pub cookie: SecretString,
    /// Whose session it is.
    pub person: PersonNo,
}

/// Makes a link that lets in once, within [`switchboard_core::console::LINK_MS`]: the secret to put behind it.
pub async fn mint_link(hub: &Hub) -> Result<SecretString, Detail> {
    let secret = Request::fresh(hub).seed().secret(hub, "sbl_");
    let person = hub.installation.owner;
    hub.commit_one(Write::Console(ConsoleWrite::MintLink { person, hash: bearer_hash(&secret) })).await?;
    Ok(secret.into())
}

/// The address of a link. The secret stands behind the `#`, which browsers keep to themselves: no log, proxy or preview sees it.
#[must_use]
pub fn link_url(hub: &Hub, secret: &SecretString) -> String {
    format!("{}/console/enter#{}", hub.settings.public_url, secret.expose_secret())
}

/// Uses a link up.
pub async fn enter(hub: &Hub, link: &str, browser: &str) -> Result<Entered, Detail> {
    let (cookie, session) = new_session(hub, browser);
    let entered =
        hub.commit_one(Write::Console(ConsoleWrite::Enter { link: bearer_hash(link.trim()), session }));
    let over =
        "This link was used before or is older than 15 minutes; `switchboard console` prints another one.";
    begun(hub, "console.enter", entered.await, cookie, over)
}

/// Signs a person in by display name and password. Unknown names, names without a password and wrong passwords take the same
/// time and get the same answer.
pub async fn sign_in(hub: &Hub, name: &str, password: &str, browser: &str) -> Result<Entered, Detail> {
    let key = framed("console.name", &[name.as_bytes()]);
    if let Err(wait) = hub.console.wrong.lock().take(key, hub.clock().monotonic()) {
        let detail = too_many(wait);
        hub.refused("console.sign_in", "unknown", &detail);
        return Err(detail);
    }
    let fits = name.chars().count() <= NAME_CHARS_MAX && password.chars().count() <= PASSWORD_CHARS_MAX;
    let login = hub.store().console_login(if fits { name.to_owned() } else { String::new() }).await;
    let login = login.map_err(|error| refusal::store(&error))?;
    let verifier = login.as_ref().map(|login| login.verifier.clone());
    let right = verify(hub, password, verifier).await?;
    let wrong =
        "Name and password do not belong together. `switchboard console` prints a link that needs neither.";
    let Some(login) = login.filter(|_| right) else {
        let detail = Detail::new(Code::Unauthorized, wrong).field("password").sb("SB0160");
        hub.refused("console.sign_in", "unknown", &detail);
        return Err(detail);
    };
    hub.console.wrong.lock().was_right(&key);
    let (cookie, session) = new_session(hub, browser);
    let write = ConsoleWrite::SignIn { person: login.person, verifier: login.verifier, session };
    begun(hub, "console.sign_in", hub.commit_one(Write::Console(write)).await, cookie, wrong)
}

fn too_many(wait: Duration) -> Detail {
    let message = "Too many wrong passwords; wait, or let `switchboard console` print a link.";
    Detail::new(Code::RateLimited, message).field("password").retry_after_s(wait.as_secs() + 1).sb("SB0160")
}

fn begun(
    hub: &Hub,
    verb: &'static str,
    outcome: Result<Outcome, Detail>,
    cookie: SecretString,
    not_found: &str,
) -> Result<Entered, Detail> {
    let refused = |detail: Detail| match detail.code {
        Code::NotFound => Detail::new(Code::Unauthorized, not_found).sb("SB0160"),
        _ => detail,
    };
    match outcome.map_err(refused).inspect_err(|detail| hub.refused(verb, "unknown", detail))? {
        Outcome::Entered { person } => Ok(Entered { cookie, person }),
        _ => Err(refusal::not_found("session", "No session has begun.")),
    }
}

fn new_session(hub: &Hub, browser: &str) -> (SecretString, NewSession) {
    let secret = format!("sbc_{}", base32(&random::bytes::<32>(hub.entropy())));
    let browser = strip_invisible(browser).chars().take(BROWSER_CHARS_MAX).collect();
    let session = NewSession { hash: bearer_hash(&secret), session_id: hub.fresh_id("cs"), browser };
    (secret.into(), session)
}

/// Verifies, at most [`VERIFYING_MAX`] at a time; without a verifier the same work is done for nothing.
async fn verify(hub: &Hub, password: &str, verifier: Option<String>) -> Result<bool, Detail> {
    let (password, salt) = (password.to_owned(), random::bytes(hub.entropy()));
    on_desk(hub, move || match verifier {
        Some(verifier) => PasswordHash::new(&verifier)
            .is_ok_and(|known| argon2().verify_password(password.as_bytes(), &known).is_ok()),
        None => hash(&password, &salt).is_none(),
    })
    .await
}

async fn on_desk<T: Send + 'static>(
    hub: &Hub,
    work: impl FnOnce() -> T + Send + 'static,
) -> Result<T, Detail> {
    let busy = |_| refusal::store(&switchboard_core::port::store::StoreError::Overloaded);
    let place = hub.console.verifying.clone().acquire_owned().await.map_err(busy)?;
    let done = tokio::task::spawn_blocking(move || {
        let done = work();
        drop(place);
        done
    });
    done.await.map_err(|_| refusal::store(&switchboard_core::port::store::StoreError::Overloaded))
}

fn argon2() -> Argon2<'static> {
    let (memory_kib, passes, lanes) = ARGON2;
    let params = Params::new(memory_kib, passes, lanes, None).unwrap_or_default();
    Argon2::new(Algorithm::Argon2id, Version::V0x13, params)
}

fn hash(password: &str, salt: &[u8; SALT_BYTES]) -> Option<String> {
    argon2().hash_password_with_salt(password.as_bytes(), salt).ok().map(|hash| hash.to_string())
}

/// The session behind a cookie, if it is good; notes that it is in use.
pub async fn session(hub: &Hub, cookie: &str) -> Result<Option<SessionRow>, Detail> {
    let (hash, now) = (bearer_hash(cookie), hub.clock().wall_ms());
    let row = hub.store().console_session(hash, now).await.map_err(|error| refusal::store(&error))?;
    let Some(row) = row else { return Ok(None) };
    if now - row.seen_ms >= SESSION_TOUCH_MS {
        // It may have ended meanwhile; the next look will find that.
        let touched = hub.commit_one(Write::Console(ConsoleWrite::Touch { session: hash })).await;
        if let Err(detail) = touched {
            tracing::debug!(detail = detail.message.as_str(), "the use of a session could not be noted");
        }
    }
    Ok(Some(row))
}

/// Whether the session behind a cookie is good. Unlike [`session`] this is no use of it: a page that is left open does not keep it.
pub async fn is_good(hub: &Hub, cookie: &str) -> Result<bool, Detail> {
    let row = hub.store().console_session(bearer_hash(cookie), hub.clock().wall_ms()).await;
    Ok(row.map_err(|error| refusal::store(&error))?.is_some())
}

/// What forms of this session carry so that no other page can send them.
#[must_use]
pub fn form_token(hub: &Hub, cookie: &str) -> String {
    base32(&hmac(&hub.installation.keys.bearer, &[b"console.form", &bearer_hash(cookie)]))
}

/// Whether a form carries the token of this session, in a time that says nothing of how much of it is right.
#[must_use]
pub fn is_form_token(hub: &Hub, cookie: &str, token: &str) -> bool {
    let compared = |token: &str| hmac(&hub.installation.keys.bearer, &[b"compare", token.as_bytes()]);
    compared(&form_token(hub, cookie)) == compared(token)
}

/// The good sessions of a person.
pub async fn sessions(hub: &Hub, person: PersonNo) -> Result<Vec<SessionRow>, Detail> {
    let rows = hub.store().console_sessions(person, hub.clock().wall_ms()).await;
    rows.map_err(|error| refusal::store(&error))
}

/// Whether a person has a password.
pub async fn has_password(hub: &Hub, name: &str) -> Result<bool, Detail> {
    let login = hub.store().console_login(name.to_owned()).await;
    Ok(login.map_err(|error| refusal::store(&error))?.is_some())
}

/// Ends one of a person's sessions.
pub async fn end(hub: &Hub, person: PersonNo, session_id: &str) -> Result<(), Detail> {
    let write = ConsoleWrite::End { person, session_id: session_id.to_owned() };
    let ended = hub.commit_one(Write::Console(write)).await;
    let gone = |detail: Detail| match detail.code {
        Code::NotFound => refusal::not_found("session_id", "There is no such session; it may have ended."),
        _ => detail,
    };
    ended.map(drop).map_err(gone)
}

/// Ends all sessions of a person but this one.
pub async fn end_others(hub: &Hub, session: &SessionRow) -> Result<(), Detail> {
    let write = ConsoleWrite::EndOthers { person: session.person, keep: session.session_id.clone() };
    hub.commit_one(Write::Console(write)).await.map(drop)
}

/// Gives the session's person a password, and ends their other sessions. Who has one must say it.
pub async fn set_password(
    hub: &Hub,
    session: &SessionRow,
    present: &str,
    password: &str,
) -> Result<(), Detail> {
    let chars = password.chars().count();
    if !(PASSWORD_CHARS_MIN..=PASSWORD_CHARS_MAX).contains(&chars) {
        let message =
            format!("Choose a password of {PASSWORD_CHARS_MIN} to {PASSWORD_CHARS_MAX} characters.");
        return Err(refusal::bad_field("password", message));
    }
    let known = hub.store().console_login(session.person_name.clone()).await;
    if let Some(known) = known.map_err(|error| refusal::store(&error))? {
        check_present(hub, session, present, known.verifier).await?;
    }
    let (password, salt) = (password.to_owned(), random::bytes(hub.entropy()));
    let verifier = on_desk(hub, move || hash(&password, &salt)).await?;
    let verifier = verifier.ok_or_else(|| refusal::bad_field("password", "This password cannot be used."))?;
    let write =
        ConsoleWrite::SetPassword { person: session.person, verifier, keep: session.session_id.clone() };
    hub.commit_one(Write::Console(write)).await.map(drop)
}

async fn check_present(
    hub: &Hub,
    session: &SessionRow,
    present: &str,
    verifier: String,
) -> Result<(), Detail> {
    let key = framed("console.name", &[session.person_name.as_bytes()]);
    hub.console.wrong.lock().take(key, hub.clock().monotonic()).map_err(too_many)?;
    if !verify(hub, present, Some(verifier)).await? {
        let detail = refusal::bad_field("present", "That is not your present password.");
        hub.refused("console.password", &session.session_id, &detail);
        return Err(detail);
    }
    hub.console.wrong.lock().was_right(&key);
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn wrong_passwords_are_counted_by_name_and_in_all() {
        let (mut wrong, start) = (Wrong::default(), Duration::from_secs(1));
        for _ in 0..WRONG_PER_NAME_MAX {
            assert_eq!(wrong.take([1; 32], start), Ok(()));
        }
        assert_eq!(
            wrong.take([1; 32], start + Duration::from_mins(1)),
            Err(WINDOW.saturating_sub(Duration::from_secs(61)))
        );
        assert_eq!(wrong.take([2; 32], start), Ok(()), "another name");
        wrong.was_right(&[2; 32]);
        let rest = WRONG_MAX - WRONG_PER_NAME_MAX;
        let name = |at: u32| framed("n", &[&at.to_be_bytes()]);
        assert!((0..rest).all(|at| wrong.take(name(at), start).is_ok()));
        assert!(wrong.take([3; 32], start).is_err(), "in all");
        assert_eq!(wrong.take([1; 32], start + WINDOW), Ok(()), "another window");
    }

    #[test]
    fn a_password_is_verified_against_its_own_salt() {
        let verifier = hash("correct horse battery", &[7; SALT_BYTES]).unwrap();
        assert!(verifier.starts_with("$argon2id$v=19$m=19456,t=2,p=1$"), "{verifier}");
        assert_ne!(hash("correct horse battery", &[8; SALT_BYTES]).unwrap(), verifier);
        let known = PasswordHash::new(&verifier).unwrap();
        assert!(argon2().verify_password(b"correct horse battery", &known).is_ok());
        assert!(argon2().verify_password(b"correct horse batterz", &known).is_err());
    }
}
