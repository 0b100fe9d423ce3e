//! Connections: one call each, treated as the script says.

use super::Room;
use super::api::{self, Call};
use super::wire::{self, Answer};
use super::world::{Failure, World};
use serde_json::{Value, json};
use std::io;
use std::sync::Arc;
use std::time::Duration;
use switchboard_channels::conformance::{Behaviour, Wait};
use tokio::io::{AsyncReadExt as _, AsyncWriteExt as _};
use tokio::net::{TcpListener, TcpStream};

/// Pieces in which a request is read.
const PIECE_BYTES: usize = 64 * 1024;
const HEAD_PIECE_BYTES: usize = 256;
const SMALL_PIECE_BYTES: usize = 7;
/// Most updates of one answer.
const UPDATES_MAX: i64 = 100;

pub(super) async fn serve(listener: TcpListener, room: Arc<Room>) {
    while let Ok((stream, _)) = listener.accept().await {
        let room = room.clone();
        // Clients that go away in the middle are part of the tests.
        tokio::spawn(async move { treat(stream, &room).await });
    }
}

async fn treat(mut stream: TcpStream, room: &Room) -> io::Result<()> {
    let (head, begun) = wire::read_head(&mut stream, HEAD_PIECE_BYTES).await?;
    let called = head.path.strip_prefix("/bot").and_then(|path| path.rsplit_once('/'));
    let (token, method) =
        called.map_or(("", String::new()), |(token, method)| (token, method.to_lowercase()));
    let behaviour = room.change(|world| begin(world, &method));
    if behaviour == Behaviour::Reset {
        return stream.set_zero_linger();
    }
    let piece = if behaviour == Behaviour::AcceptSlowly { SMALL_PIECE_BYTES } else { PIECE_BYTES };
    let body = wire::read_body(&mut stream, piece, &head, begun).await?;
    let parameters = wire::parameters(&head, &body);
    let call = Call { parameters: &parameters, request_id: head.header("x-request-id"), body: &body };
    if let Some(refused) = wrong_token(room, token) {
        return finish(stream, &refused.bytes()).await;
    }
    room.change(|world| world.calls.push((method.clone(), Value::Object(parameters.clone()))));
    let failure =
        room.change(|world| world.failures.get_mut(&method).and_then(std::collections::VecDeque::pop_front));
    let answer = match (&failure, behaviour, method.as_str()) {
        (Some(Failure::Answer(code, description)), ..) => Answer::refused(*code, description),
        (_, Behaviour::Refuse, _) => Answer::refused(403, "Forbidden: bot was blocked by the user"),
        (_, Behaviour::Throttle(wait), _) => slow_down(wait),
        (.., "getupdates") => poll(room, &call).await,
        _ => room.change(|world| api::call(world, &method, &call)),
    };
    if let Some(Failure::Cut) = failure {
        return stream.set_zero_linger();
    }
    answer_as(stream, behaviour, &answer, room).await
}

/// Only messages are treated in a special way.
fn begin(world: &mut World, method: &str) -> Behaviour {
    if method != "sendmessage" {
        return Behaviour::Accept;
    }
    world.contacts += 1;
    world.script.pop_front().unwrap_or(Behaviour::Accept)
}

fn wrong_token(room: &Room, token: &str) -> Option<Answer> {
    let shaped =
        token.split_once(':').is_some_and(|(bot, secret)| bot.parse::<i64>().is_ok() && !secret.is_empty());
    if !shaped {
        return Some(Answer::refused(404, "Not Found"));
    }
    (room.world.lock().token != token).then(|| Answer::refused(401, "Unauthorized"))
}

fn slow_down(wait: Wait) -> Answer {
    let parameters = |value: Value| {
        let mut answer = Answer::refused(429, "Too Many Requests: retry later");
        answer.body["parameters"] = json!({ "retry_after": value });
        answer
    };
    match wait {
        Wait::Seconds(seconds) => Answer::slow_down(seconds.into()),
        Wait::Fraction(ms) | Wait::Body(ms) => parameters((f64::from(ms) / 1000.0).into()),
        Wait::Several(one, other) => {
            Answer { headers: format!("retry-after: {one}\r\n"), ..parameters(other.into()) }
        }
        Wait::Date(_) | Wait::Garbage => parameters("soon".into()),
    }
}

async fn answer_as(
    mut stream: TcpStream,
    behaviour: Behaviour,
    answer: &Answer,
    room: &Room,
) -> io::Result<()> {
    let bytes = answer.bytes();
    match behaviour {
        Behaviour::AcceptTwice => finish(stream, &bytes.repeat(2)).await,
        Behaviour::AcceptTogether(count) => {
            in_reverse(count, room).await;
            finish(stream, &bytes).await
        }
        Behaviour::AcceptThenSilence => stream.read_to_end(&mut Vec::new()).await.map(|_| ()),
        Behaviour::AcceptThenReset => stream.set_zero_linger(),
        Behaviour::AcceptThenGarbage => finish(stream, b"\x16\x03\x01 this is not HTTP\r\n\r\n").await,
        Behaviour::AcceptThenTruncate => finish(stream, &bytes[..bytes.len() - 20]).await,
        Behaviour::AcceptThenFail => {
            finish(stream, &Answer::refused(500, "Internal Server Error: restart").bytes()).await
        }
        Behaviour::AcceptSlowly => {
            for piece in bytes.chunks(SMALL_PIECE_BYTES) {
                stream.write_all(piece).await?;
                tokio::task::yield_now().await;
            }
            stream.shutdown().await
        }
        _ => finish(stream, &bytes).await,
    }
}

async fn finish(mut stream: TcpStream, bytes: &[u8]) -> io::Result<()> {
    stream.write_all(bytes).await?;
    stream.shutdown().await
}

/// Returns when `count` contacts are here, to the last first.
async fn in_reverse(count: usize, room: &Room) {
    let mut together = room.together.subscribe();
    let mut place = 0;
    room.together.send_modify(|(here, _)| {
        place = *here;
        *here += 1;
    });
    let mine = |(here, gone): &(usize, usize)| *here >= count && *gone + place + 1 == count;
    // The sender lives as long as the room.
    together.wait_for(mine).await.ok();
    room.together.send_modify(|(_, gone)| *gone += 1);
}

/// A request for updates: held until there are some, until its time is over, or until another one comes.
async fn poll(room: &Room, call: &Call<'_>) -> Answer {
    let mine = room.change(|world| {
        api::allow(world, call);
        world.acknowledge(call.number("offset").unwrap_or(0));
        world.polls += 1;
        world.polls
    });
    let held = Duration::from_secs(call.number("timeout").unwrap_or(0).try_into().unwrap_or(0));
    let limit = call.number("limit").unwrap_or(UPDATES_MAX).clamp(1, UPDATES_MAX);
    let mut ticks = room.ticks.subscribe();
    let ready = async {
        loop {
            ticks.borrow_and_update();
            if let Some(answer) = updates(&room.world.lock(), mine, limit) {
                return answer;
            }
            if ticks.changed().await.is_err() {
                return Answer::ok(&json!([]));
            }
        }
    };
    // A future that is ready is looked at before its time is.
    tokio::time::timeout(held, ready).await.unwrap_or_else(|_| Answer::ok(&json!([])))
}

fn updates(world: &World, mine: u64, limit: i64) -> Option<Answer> {
    let conflict = |why: &str| Some(Answer::refused(409, &format!("Conflict: {why}")));
    if world.token.is_empty() {
        return Some(Answer::refused(401, "Unauthorized"));
    }
    if !world.webhook.url.is_empty() {
        return conflict(
            "can't use getUpdates method while webhook is active; use deleteWebhook to delete the webhook first",
        );
    }
    if world.polls != mine {
        return conflict(
            "terminated by other getUpdates request; make sure that only one bot instance is running",
        );
    }
    let updates: Vec<&Value> = world.updates.iter().take(usize::try_from(limit).unwrap_or(1)).collect();
    (!updates.is_empty()).then(|| Answer::ok(&json!(updates)))
}
