//! Delivery status notifications (RFC 3464): a mail of ours did not arrive after all.

use super::compose::message_id;
use super::status::Status;
use mail_parser::{Message, MessageParser, MessagePart, MimeHeaders as _, PartType};
use switchboard_core::port::channel::IncomingKind;

/// Longest reason that is handed on, in characters.
const REASON_CHARS_MAX: usize = 300;

/// The bounce that `mail` is. A notice that something is only late, or that does not say which mail it is about, is none.
pub(super) fn of(mail: &Message<'_>, references: &[String]) -> Option<IncomingKind> {
    let kind = |part: &MessagePart<'_>, kind: &str, subtype: &str| {
        let found = part.content_type();
        found.is_some_and(|found| {
            found.ctype().eq_ignore_ascii_case(kind)
                && found.subtype().is_some_and(|s| s.eq_ignore_ascii_case(subtype))
        })
    };
    let report = mail.parts.iter().find(|part| kind(part, "message", "delivery-status"))?;
    let report = String::from_utf8_lossy(report.contents()).replace("\r\n", "\n");
    // Folded lines in one.
    let report = report.replace("\n ", " ").replace("\n\t", " ");
    let failed = report
        .split("\n\n")
        .map(Fields)
        .find(|fields| fields.get("Action").is_some_and(|action| action.eq_ignore_ascii_case("failed")))?;
    let status = failed.get("Status").and_then(Status::at_start_of);
    let original = mail.parts.iter().find_map(|part| match &part.body {
        PartType::Message(original) => original.message_id().and_then(message_id),
        _ if kind(part, "text", "rfc822-headers") => headers_id(part.contents()),
        _ => None,
    });
    let diagnostic = failed.get("Diagnostic-Code").unwrap_or("no reason given");
    let said = failed.get("Status").unwrap_or("no status");
    let reason: String = crate::document::clean_line(&format!("{said}: {diagnostic}"))
        .chars()
        .take(REASON_CHARS_MAX)
        .collect();
    Some(IncomingKind::Bounce {
        message_id: original.or_else(|| references.last().cloned())?,
        permanent: status.is_some_and(Status::bounce_is_permanent),
        reason,
    })
}

fn headers_id(headers: &[u8]) -> Option<String> {
    MessageParser::new().parse_headers(headers)?.message_id().and_then(message_id)
}

/// One group of a report's fields.
#[derive(Clone, Copy)]
struct Fields<'a>(&'a str);

impl<'a> Fields<'a> {
    fn get(self, name: &str) -> Option<&'a str> {
        let mut lines = self.0.lines().filter_map(|line| line.split_once(':'));
        lines.find(|(found, _)| found.trim().eq_ignore_ascii_case(name)).map(|(_, value)| value.trim())
    }
}
