//! What must hold for every input, however hostile: no panic, no endless loop, and the property each function names.
//!
//! Each property takes raw bytes and panics when it does not hold. It runs twice: under libFuzzer, which looks for new ways
//! through the code (`targets/`), and as an ordinary test with generated input on a stable compiler (`tests/twins.rs`).
//!
//! To add one: a function here, its twin, a target of the same name, a line in `Cargo.toml`.

use switchboard_core::gid::GidCipher;
use switchboard_core::ids::{EventId, VaultId, base32, base32_decode};
use switchboard_core::log::Entry;
use switchboard_protocol::fence::{FenceHeader, fence as fenced};
use switchboard_protocol::frame::client::{self, ClientFrame};
use switchboard_protocol::frame::server::ServerFrame;
use switchboard_protocol::json::{Limits, scan};
use switchboard_protocol::message::Trust;
use switchboard_protocol::text::{Channel, CursorKey, invisible};
use switchboard_protocol::time::UtcTime;

/// What the strict scan accepts, the parser accepts, too; and it finds the same members at the top level.
///
/// # Panics
/// When the property does not hold, as every function here.
pub fn json(bytes: &[u8]) {
    let Ok(scanned) = scan(bytes, Limits::FRAME) else { return };
    let value: serde_json::Value = serde_json::from_slice(bytes).expect("the scan accepts only JSON");
    assert_eq!(scanned.is_object, value.is_object());
    for (name, found) in
        [("t", &scanned.t), ("schema", &scanned.schema), ("client_msg_id", &scanned.client_msg_id)]
    {
        let expected = value.get(name).and_then(serde_json::Value::as_str);
        assert_eq!(found.as_deref(), expected, "{name}");
    }
}

/// A frame that was accepted is written to a text that is accepted again and written the same.
///
/// # Panics
/// When the property does not hold.
pub fn frames(bytes: &[u8]) {
    let Ok(text) = std::str::from_utf8(bytes) else { return };
    if let Some(written) = client_frame(text) {
        assert_eq!(client_frame(&written).as_ref(), Some(&written));
    }
    if let Some(written) = server_frame(text) {
        assert_eq!(server_frame(&written).as_ref(), Some(&written));
    }
}

fn client_frame(text: &str) -> Option<String> {
    match client::parse(text, &Limits::FRAME).ok()? {
        ClientFrame::Unknown(_) => None,
        frame => Some(frame.to_json().expect("a known frame can be written")),
    }
}

fn server_frame(text: &str) -> Option<String> {
    match ServerFrame::parse(text, Limits::FRAME).ok()? {
        ServerFrame::Unknown(_) => None,
        frame => Some(frame.to_json().expect("a known frame can be written")),
    }
}

/// Short texts with a grammar (times, ids, names) are read in one way only: what is accepted is written the same.
///
/// # Panics
/// When the property does not hold.
pub fn texts(bytes: &[u8]) {
    let Ok(text) = std::str::from_utf8(bytes) else { return };
    let gids = GidCipher::new(&[7; 16]);
    let written = [
        UtcTime::parse(text).map(|time| time.to_string()),
        Channel::parse(text).ok().map(|channel| channel.to_string()),
        CursorKey::parse(text).ok().map(|key| key.to_string()),
        VaultId::parse(text).map(|vault| vault.to_string()),
        gids.event(text).map(|event| gids.gid(event)),
        base32_decode::<16>(text).map(|block| base32(&block)),
    ];
    for written in written.into_iter().flatten() {
        assert_eq!(written, text);
    }
    if let Some(row) = bytes.first_chunk::<8>().map(|row| i64::from_be_bytes(*row)).filter(|row| *row >= 0) {
        assert_eq!(EventId::from_row(row).row(), row);
    }
}

/// A fence has its boundary in its two lines and nowhere else, whatever the body and the sender's name say.
///
/// # Panics
/// When the property does not hold.
pub fn fence(bytes: &[u8]) {
    const BOUNDARY: &str = "5f3ac1e09b7d4c2e8f5a1b6c9d0e7f42";
    let text = String::from_utf8_lossy(bytes);
    let (sender, body) = text.split_once('\0').unwrap_or(("", &text));
    let header = FenceHeader::new(sender, Trust::Untrusted).with("message", sender);
    // As hostile as can be: an author who guessed the boundary.
    for body in [body.to_owned(), body.replace('~', BOUNDARY)] {
        let out = fenced(BOUNDARY, &header, &body);
        assert_eq!(out.to_ascii_lowercase().matches(BOUNDARY).count(), 2, "{out:?}");
        assert!(!out.chars().any(invisible), "{out:?}");
        let before_body = out.lines().take_while(|line| !line.contains(BOUNDARY));
        assert_eq!(before_body.count(), 4, "from, trust, message and the rule: {out:?}");
    }
}

/// Stored log entries are read without panic, and what was read is written to bytes that read the same.
///
/// # Panics
/// When the property does not hold.
pub fn log(bytes: &[u8]) {
    let Some(entries) = Entry::decode_all(bytes) else { return };
    let mut written = Vec::new();
    for entry in &entries {
        entry.encode(&mut written);
    }
    assert_eq!(Entry::decode_all(&written), Some(entries));
}
