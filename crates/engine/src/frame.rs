//! Deliveries as bytes. The part of a frame that is the same for every receiver is made once, when the message comes in,
//! and stored as it is; a delivery only puts sequence, ids and times in front of it.
//!
//! Stored data are JSON members without braces. A sender always starts them with [`OTHERS`], so that the variant for the
//! sender's own instance is the same bytes with another beginning.

use bytes::Bytes;
use switchboard_core::event::{EventKind, StoredEvent};
use switchboard_core::gid::{GID_CHARS, GidCipher};
use switchboard_core::time::{SECOND_MS, WallMs};
use switchboard_protocol::time::UtcTime;

/// How the data of an agent's message begin; strings that a client chose come behind it.
pub const OTHERS: &str = r#""from":{"kind":"agent","mine":false"#;
const MINE: &str = r#""from":{"kind":"agent","mine":true"#;

/// The wall time as the wire shows it: whole seconds.
#[must_use]
pub fn utc(at_ms: WallMs) -> UtcTime {
    UtcTime::from_unix(at_ms.div_euclid(SECOND_MS))
}

/// The delivery frame of an event. `mine`: for a socket of the sending instance.
#[must_use]
pub fn deliver(event: &StoredEvent, gids: &GidCipher, mine: bool) -> Bytes {
    let mut out = Vec::with_capacity(event.data.len() + 256);
    match event.kind {
        EventKind::Publish => publish(event, &mut out),
        EventKind::Task => task(event, &mut out),
        _ => {
            out.extend(br#"{"t":"message.deliver","#);
            message(event, gids, mine, &mut out);
        }
    }
    out.push(b'}');
    out.into()
}

/// A message as an item of a history page: the delivery without `t`.
#[must_use]
pub fn history_item(event: &StoredEvent, gids: &GidCipher, mine: bool) -> Vec<u8> {
    let mut out = Vec::with_capacity(event.data.len() + 256);
    out.push(b'{');
    message(event, gids, mine, &mut out);
    out.push(b'}');
    out
}

fn message(event: &StoredEvent, gids: &GidCipher, mine: bool, out: &mut Vec<u8>) {
    let mut gid = String::with_capacity(GID_CHARS);
    let mut quoted = |out: &mut Vec<u8>, name: &str, id| {
        gid.clear();
        gids.write(id, &mut gid);
        out.extend(name.as_bytes());
        out.extend(gid.as_bytes());
    };
    quoted(out, r#""gid":""#, event.id);
    quoted(out, r#"","thread_id":""#, event.thread);
    if let Some(reply_to) = event.reply_to {
        quoted(out, r#"","reply_to":""#, reply_to);
    }
    out.extend(br#"","seq":"#);
    put_number(out, event.id.seq);
    put_time(out, r#","server_time":""#, event.at_ms);
    put_time(out, r#"","expires_at":""#, event.expires_at_ms);
    out.extend(br#"","#);
    // Known only since the commit, which also binds replies that name nobody.
    if let Some(to) = &event.to {
        out.extend(br#""to":"#);
        let _ = serde_json::to_writer(&mut *out, &to.agent);
        out.push(b',');
    }
    match event.data.strip_prefix(OTHERS.as_bytes()).filter(|_| mine) {
        Some(rest) => {
            out.extend(MINE.as_bytes());
            out.extend(rest);
        }
        None => out.extend(&event.data[..]),
    }
}

fn publish(event: &StoredEvent, out: &mut Vec<u8>) {
    out.extend(br#"{"t":"deliver","#);
    tail(event, out);
}

fn task(event: &StoredEvent, out: &mut Vec<u8>) {
    out.extend(br#"{"t":"task.event","#);
    tail(event, out);
}

fn tail(event: &StoredEvent, out: &mut Vec<u8>) {
    out.extend(br#""seq":"#);
    put_number(out, event.id.seq);
    put_time(out, r#","server_time":""#, event.at_ms);
    out.extend(br#"","#);
    out.extend(&event.data[..]);
}

fn put_time(out: &mut Vec<u8>, name: &str, at_ms: WallMs) {
    out.extend(name.as_bytes());
    utc(at_ms).write_to(out);
}

/// Appends a number in decimal.
pub fn put_number(out: &mut Vec<u8>, mut number: u64) {
    let mut digits = [0; 20];
    let mut at = digits.len();
    loop {
        at -= 1;
        digits[at] = b'0' + u8::try_from(number % 10).unwrap_or(0);
        number /= 10;
        if number == 0 {
            break;
        }
    }
    out.extend(&digits[at..]);
}

/// Appends `"name":value` with `value` serialized; a leading comma unless `out` is empty.
pub fn member(out: &mut Vec<u8>, name: &str, value: &impl serde::Serialize) {
    if !out.is_empty() {
        out.push(b',');
    }
    out.push(b'"');
    out.extend(name.as_bytes());
    out.extend(br#"":"#);
    // Only maps with non-string keys and failing writers fail; wire types are neither.
    let _ = serde_json::to_writer(out, value);
}

#[cfg(test)]
mod tests {
    use super::*;
    use switchboard_core::ids::{EventId, InstanceNo, StreamId};

    fn event(kind: EventKind, data: &str) -> StoredEvent {
        let id = EventId { stream: StreamId(1), seq: 18_446_744 };
        StoredEvent {
            id,
            kind,
            at_ms: 1_792_497_600_999,
            expires_at_ms: 1_795_089_600_000,
            thread: id,
            reply_to: None,
            from_instance: InstanceNo(1),
            from_agent: "a".into(),
            to: None,
            data: Bytes::copy_from_slice(data.as_bytes()),
        }
    }

    #[test]
    fn the_senders_own_instance_sees_mine() {
        let gids = GidCipher::new(&[1; 16]);
        let forged = r#","agent":"\"mine\":false"},"trust":"team""#;
        let event = event(EventKind::Finding, &format!("{OTHERS}{forged}"));
        let parse =
            |mine| serde_json::from_slice::<serde_json::Value>(&deliver(&event, &gids, mine)).unwrap();
        assert_eq!(parse(false)["from"]["mine"], false);
        let mine = parse(true);
        assert_eq!(mine["from"]["mine"], true);
        assert_eq!(mine["from"]["agent"], r#""mine":false"#);
        assert_eq!(mine["seq"], 18_446_744);
        assert_eq!(mine["server_time"], "2026-10-20T12:00:00Z");
        assert_eq!(mine["gid"], mine["thread_id"]);
    }

    #[test]
    fn the_receiver_is_named() {
        let gids = GidCipher::new(&[1; 16]);
        let to = Some(switchboard_core::event::Addressee { instance: InstanceNo(2), agent: r#"b"c"#.into() });
        let direct = StoredEvent { to, ..event(EventKind::Answer, &format!("{OTHERS}}}")) };
        for frame in [deliver(&direct, &gids, true).to_vec(), history_item(&direct, &gids, false)] {
            assert_eq!(serde_json::from_slice::<serde_json::Value>(&frame).unwrap()["to"], r#"b"c"#);
        }
        let open = history_item(&event(EventKind::Answer, &format!("{OTHERS}}}")), &gids, false);
        assert!(serde_json::from_slice::<serde_json::Value>(&open).unwrap().get("to").is_none());
    }

    #[test]
    fn other_kinds_have_their_own_frames() {
        let gids = GidCipher::new(&[1; 16]);
        for (kind, name) in [(EventKind::Publish, "deliver"), (EventKind::Task, "task.event")] {
            let frame = deliver(&event(kind, r#""channel":"c""#), &gids, false);
            let value: serde_json::Value = serde_json::from_slice(&frame).unwrap();
            assert_eq!((value["t"].as_str(), value["channel"].as_str()), (Some(name), Some("c")));
        }
    }

    #[test]
    fn numbers_are_decimal() {
        for number in [0, 7, 10, u64::MAX] {
            let mut out = Vec::new();
            put_number(&mut out, number);
            assert_eq!(String::from_utf8(out).unwrap(), number.to_string());
        }
    }
}
