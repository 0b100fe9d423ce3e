//! A part as the bytes of a mail (RFC 5322, MIME). The same attempt gives the same bytes.

use super::address;
use lettre::message::header::{ContentTransferEncoding, ContentType, HeaderName, HeaderValue};
use lettre::message::{Body, Mailbox, Message, MultiPart, SinglePart};
use std::time::{Duration, SystemTime};
use switchboard_core::port::channel::Attempt;

/// Ids of a conversation that a mail names at most: its first and its last ones.
const REFERENCES_MAX: usize = 20;
/// Longest message id that is repeated, in bytes.
pub(super) const MESSAGE_ID_BYTES_MAX: usize = 255;
/// The header by which our own mails are known when they come back.
pub(super) const OWN_HEADER: &str = "X-Switchboard-Delivery";

/// Who a mail is from.
#[derive(Debug, Clone)]
pub(super) struct Sender {
    /// Normalised address.
    pub from: String,
    /// The name beside it.
    pub name: Option<String>,
}

impl Sender {
    /// The id of the mail of a delivery, without brackets.
    pub fn message_id(&self, delivery: &str) -> String {
        format!("{delivery}@{}", address::domain(&self.from))
    }
}

/// Why a mail was sent without a person's doing (RFC 3834, section 5).
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Cause {
    /// An agent wrote it.
    Message,
    /// A mail that came in is answered.
    Notice,
}

/// The mail of `attempt`. `reply_to` is where answers go, if not to the sender.
pub(super) fn compose(
    sender: &Sender,
    attempt: &Attempt,
    reply_to: Option<&str>,
    cause: Cause,
) -> Result<Vec<u8>, String> {
    let wrong =
        |what: &str, error: &dyn std::fmt::Display| format!("the {what} cannot be put into a mail: {error}");
    let mailbox = |name: Option<String>, of: &str| {
        of.parse().map(|address| Mailbox::new(name, address)).map_err(|error| wrong("address", &error))
    };
    let accepted =
        SystemTime::UNIX_EPOCH + Duration::from_millis(u64::try_from(attempt.accepted_ms).unwrap_or(0));
    let mut builder = Message::builder()
        .date(accepted)
        .from(mailbox(sender.name.as_deref().map(crate::document::clean_line), &sender.from)?)
        .to(mailbox(None, &attempt.to.handle)?)
        .subject(crate::document::clean_line(attempt.part.subject.as_deref().unwrap_or_default()))
        .message_id(Some(format!("<{}>", sender.message_id(&attempt.delivery))));
    if let Some(reply_to) = reply_to {
        builder = builder.reply_to(mailbox(None, reply_to)?);
    }
    let references = references(&attempt.references);
    if let Some(last) = references.last() {
        builder = builder.in_reply_to(last.clone()).references(references.join(" "));
    }
    for (name, value) in [
        (
            "Auto-Submitted",
            if cause == Cause::Message { "auto-generated" } else { "auto-replied" }.to_owned(),
        ),
        ("X-Auto-Response-Suppress", "All".to_owned()),
        (OWN_HEADER, attempt.delivery.clone()),
    ] {
        builder = builder.raw_header(HeaderValue::new(HeaderName::new_from_ascii_str(name), value));
    }
    let mail = builder.multipart(body(attempt)).map_err(|error| wrong("message", &error))?;
    Ok(mail.formatted())
}

/// Plain text with HTML beside it. Quoted-printable throughout: any server takes it and no line is long.
fn body(attempt: &Attempt) -> MultiPart {
    let part = |text: &str, kind: ContentType| {
        let text = text.to_owned();
        let encoding = ContentTransferEncoding::QuotedPrintable;
        let encoded = Body::new_with_encoding(text, encoding).unwrap_or_else(Body::new);
        SinglePart::builder().header(kind).body(encoded)
    };
    // '=' is never followed by '_' in quoted-printable text: the border cannot stand in it.
    let alternatives = MultiPart::alternative().boundary(format!("=_{}", attempt.delivery));
    let alternatives = alternatives.singlepart(part(&attempt.part.text, ContentType::TEXT_PLAIN));
    match &attempt.part.html {
        Some(html) => alternatives.singlepart(part(html, ContentType::TEXT_HTML)),
        None => alternatives,
    }
}

/// The ids that are message ids, in brackets.
fn references(ids: &[String]) -> Vec<String> {
    let known: Vec<String> = ids.iter().filter_map(|id| message_id(id)).map(|id| format!("<{id}>")).collect();
    if known.len() <= REFERENCES_MAX {
        return known;
    }
    let rest = known.len() - (REFERENCES_MAX - 1);
    known.iter().take(1).chain(&known[rest..]).cloned().collect()
}

/// A message id without its brackets, if `text` is one.
pub(super) fn message_id(text: &str) -> Option<String> {
    let id = text.trim();
    let id = id.strip_prefix('<').and_then(|id| id.strip_suffix('>')).unwrap_or(id);
    let shaped = !id.is_empty()
        && id.len() <= MESSAGE_ID_BYTES_MAX
        && id.bytes().all(|b| b.is_ascii_graphic() && !b"<>,".contains(&b));
    shaped.then(|| id.to_owned())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn only_message_ids_are_repeated() {
        let ids = |ids: &[&str]| references(&ids.iter().map(|id| (*id).to_owned()).collect::<Vec<_>>());
        assert_eq!(ids(&["a@b", "<c@d>", "", "<>", "x y@z", "e@f\r\nBcc: g@h", "ü@b"]), ["<a@b>", "<c@d>"]);
        let many: Vec<String> = (0..50).map(|n| format!("{n}@x")).collect();
        let kept = references(&many);
        assert_eq!((kept.len(), kept[0].as_str(), kept[19].as_str()), (20, "<0@x>", "<49@x>"));
    }
}
