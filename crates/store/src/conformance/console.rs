//! Links, passwords and sessions of the console.

use super::bench::Bench;
use switchboard_core::console::{
    ConsoleWrite, LINK_MS, LINKS_MAX, NewSession, SESSION_IDLE_MS, SESSION_MS, SESSIONS_MAX, SessionRow,
};
use switchboard_core::ids::PersonNo;
use switchboard_core::limits::SWEEP_ROWS_MAX;
use switchboard_core::log::Entry;
use switchboard_core::time::{HOUR_MS, MINUTE_MS};
use switchboard_core::write::{Outcome, Refusal, Write};

fn new_session(number: u8) -> NewSession {
    NewSession {
        hash: [number; 32],
        session_id: format!("cs_{number}"),
        browser: format!("Browser {number}"),
    }
}

fn mint(bench: &Bench<'_>, number: u8) -> Write {
    Write::Console(ConsoleWrite::MintLink { person: bench.installation.owner, hash: [number; 32] })
}

fn enter(link: u8, session: u8) -> Write {
    Write::Console(ConsoleWrite::Enter { link: [link; 32], session: new_session(session) })
}

fn touch(session: u8) -> Write {
    Write::Console(ConsoleWrite::Touch { session: [session; 32] })
}

/// A session of the owner, entered by a link.
async fn entered(bench: &mut Bench<'_>, number: u8) {
    bench.one(mint(bench, number)).await;
    let person = bench.installation.owner;
    assert_eq!(bench.one(enter(number, number)).await, Outcome::Entered { person });
}

async fn session(bench: &Bench<'_>, number: u8) -> Option<SessionRow> {
    bench.store().console_session([number; 32], bench.now).await.expect("sessions are readable")
}

async fn sessions(bench: &Bench<'_>) -> Vec<String> {
    let rows = bench.store().console_sessions(bench.installation.owner, bench.now).await;
    rows.expect("sessions are readable").into_iter().map(|row| row.session_id).collect()
}

/// A link begins one session, which is found by the hash of its secret alone.
pub async fn a_link_lets_in_once(mut bench: Bench<'_>) {
    assert_eq!(bench.refused(enter(1, 1)).await, Refusal::NotFound, "nobody made it");
    entered(&mut bench, 1).await;
    let row = session(&bench, 1).await.expect("it is good");
    let owner = bench.installation.owner;
    assert_eq!((row.person, row.person_name.as_str()), (owner, "Olivia"));
    assert_eq!((row.session_id.as_str(), row.browser.as_str()), ("cs_1", "Browser 1"));
    assert_eq!((row.created_ms, row.seen_ms), (bench.now, bench.now));
    assert_eq!(row.ends_ms, bench.now + SESSION_IDLE_MS);
    assert_eq!(bench.refused(enter(1, 2)).await, Refusal::NotFound, "it was used");
    assert_eq!(session(&bench, 2).await, None);
    let nobody = ConsoleWrite::MintLink { person: PersonNo(99), hash: [3; 32] };
    assert_eq!(bench.refused(Write::Console(nobody)).await, Refusal::NotFound);
}

/// A link ends by itself; so many may wait.
pub async fn links_end_and_are_bounded(mut bench: Bench<'_>) {
    let many = (0..LINKS_MAX).map(|at| mint(&bench, u8::try_from(at).expect("few"))).collect();
    bench.commit(many).await;
    let full = Refusal::Full { what: "console_links", limit: u64::from(LINKS_MAX) };
    assert_eq!(bench.refused(mint(&bench, 200)).await, full);
    bench.now += LINK_MS - 1;
    assert_eq!(bench.one(enter(0, 1)).await, Outcome::Entered { person: bench.installation.owner });
    bench.now += 1;
    assert_eq!(bench.refused(enter(1, 2)).await, Refusal::NotFound, "it is over");
    bench.one(Write::Sweep { limit: SWEEP_ROWS_MAX }).await;
    assert_eq!(bench.one(mint(&bench, 1)).await, Outcome::Done, "what is over has gone");
}

/// Use keeps a session, until it is too old.
pub async fn a_session_ends_when_unused_and_when_old(mut bench: Bench<'_>) {
    entered(&mut bench, 1).await;
    entered(&mut bench, 2).await;
    let began = bench.now;
    bench.now += SESSION_IDLE_MS - 1;
    assert_eq!(bench.one(touch(1)).await, Outcome::Done);
    bench.now += 1;
    assert_eq!(session(&bench, 2).await, None, "nobody used it");
    assert_eq!(bench.refused(touch(2)).await, Refusal::NotFound, "and it does not come back");
    while bench.now + SESSION_IDLE_MS < began + SESSION_MS {
        bench.now += SESSION_IDLE_MS - HOUR_MS;
        assert_eq!(bench.one(touch(1)).await, Outcome::Done);
    }
    let row = session(&bench, 1).await.expect("it is good");
    assert_eq!((row.seen_ms, row.ends_ms), (bench.now, began + SESSION_MS));
    bench.now = began + SESSION_MS;
    assert_eq!(session(&bench, 1).await, None);
    bench.one(Write::Sweep { limit: SWEEP_ROWS_MAX }).await;
    assert_eq!(sessions(&bench).await, Vec::<String>::new());
}

/// The session that was not used for longest makes room for a new one.
pub async fn a_person_has_so_many_sessions(mut bench: Bench<'_>) {
    let most = u8::try_from(SESSIONS_MAX).expect("few");
    for number in 0..most {
        entered(&mut bench, number).await;
        bench.now += 1;
    }
    bench.one(touch(0)).await;
    bench.now += 1;
    entered(&mut bench, most).await;
    assert_eq!(sessions(&bench).await.len(), SESSIONS_MAX);
    assert_eq!(session(&bench, 1).await, None);
    assert!(session(&bench, 0).await.is_some(), "it was used");
}

/// One session ends, or all but one; those of others are not there to end.
pub async fn sessions_end_one_by_one_and_together(mut bench: Bench<'_>) {
    let person = bench.installation.owner;
    for number in 1..=4 {
        entered(&mut bench, number).await;
        bench.now += 1;
    }
    assert_eq!(sessions(&bench).await, ["cs_4", "cs_3", "cs_2", "cs_1"], "the one used last first");
    let end = |person, id: &str| Write::Console(ConsoleWrite::End { person, session_id: id.into() });
    assert_eq!(bench.refused(end(PersonNo(99), "cs_1")).await, Refusal::NotFound);
    assert_eq!(bench.one(end(person, "cs_1")).await, Outcome::Done);
    assert_eq!(bench.refused(end(person, "cs_1")).await, Refusal::NotFound);
    assert_eq!(session(&bench, 1).await, None);
    let others = ConsoleWrite::EndOthers { person, keep: "cs_3".into() };
    assert_eq!(bench.one(Write::Console(others)).await, Outcome::Done);
    assert_eq!(sessions(&bench).await, ["cs_3"]);
}

fn set_password(bench: &Bench<'_>, verifier: &str, keep: &str) -> Write {
    let person = bench.installation.owner;
    Write::Console(ConsoleWrite::SetPassword { person, verifier: verifier.into(), keep: keep.into() })
}

fn sign_in(bench: &Bench<'_>, verifier: &str, session: u8) -> Write {
    let (person, session) = (bench.installation.owner, new_session(session));
    Write::Console(ConsoleWrite::SignIn { person, verifier: verifier.into(), session })
}

/// Whoever sets a password ends every other session; from then on it lets in under the person's name.
pub async fn a_password_ends_other_sessions(mut bench: Bench<'_>) {
    let person = bench.installation.owner;
    entered(&mut bench, 1).await;
    entered(&mut bench, 2).await;
    let login = async |bench: &Bench<'_>, name: &str| {
        bench.store().console_login(name.to_owned()).await.expect("passwords are readable")
    };
    assert_eq!(login(&bench, "Olivia").await, None);
    assert_eq!(bench.refused(set_password(&bench, "$a", "cs_9")).await, Refusal::NotFound);
    assert_eq!(bench.one(set_password(&bench, "$a", "cs_2")).await, Outcome::Done);
    assert_eq!(sessions(&bench).await, ["cs_2"]);
    let row = login(&bench, "Olivia").await.expect("there is one");
    assert_eq!((row.person, row.verifier.as_str()), (person, "$a"));
    assert_eq!(login(&bench, "olivia").await, None);
    assert_eq!(bench.one(sign_in(&bench, "$a", 3)).await, Outcome::Entered { person });
    assert!(session(&bench, 3).await.is_some());
}

/// A sign-in that was verified against a password which was changed in the meantime does not count.
pub async fn a_password_that_was_changed_lets_nobody_in(mut bench: Bench<'_>) {
    entered(&mut bench, 1).await;
    assert_eq!(bench.refused(sign_in(&bench, "$a", 2)).await, Refusal::NotFound, "there is none");
    bench.one(set_password(&bench, "$a", "cs_1")).await;
    bench.one(set_password(&bench, "$b", "cs_1")).await;
    assert_eq!(bench.refused(sign_in(&bench, "$a", 2)).await, Refusal::NotFound);
    assert_eq!(
        bench.one(sign_in(&bench, "$b", 2)).await,
        Outcome::Entered { person: bench.installation.owner }
    );
}

/// The log says who came, went and changed a password, and holds no secret.
pub async fn entering_is_logged(mut bench: Bench<'_>) {
    entered(&mut bench, 1).await;
    bench.one(set_password(&bench, "$a", "cs_1")).await;
    bench.one(sign_in(&bench, "$a", 2)).await;
    bench.now += 10 * MINUTE_MS;
    bench.one(touch(2)).await;
    let person = bench.installation.owner;
    bench.one(Write::Console(ConsoleWrite::End { person, session_id: "cs_2".into() })).await;
    let actor = format!("person {}", person.0);
    let entries = bench.entries().await;
    let verbs: Vec<_> = entries
        .iter()
        .filter_map(|entry| match entry {
            Entry::Admitted { verb, actor: by, subject } if *by == actor => {
                Some((verb.as_str(), subject.as_str()))
            }
            _ => None,
        })
        .collect();
    let expected = [
        ("console.link", ""),
        ("console.enter", "cs_1"),
        ("console.password", "cs_1"),
        ("console.sign_in", "cs_2"),
        ("console.sign_out", "cs_2"),
    ];
    assert_eq!(verbs, expected);
}
