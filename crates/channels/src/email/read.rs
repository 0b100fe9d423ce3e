//! The bytes of a mail as what the port takes.

use super::compose::message_id;
use super::origin::{Verdict, is_automatic, raw, verdict};
use super::secret::{ReplyAddress, Token};
use super::{address, bounce, origin, words};
use mail_parser::{Address, HeaderValue, Message, MessageParser};
use sha2::{Digest as _, Sha256};
use switchboard_core::port::channel::{Incoming, IncomingKind, Origin};
use switchboard_core::time::WallMs;

/// Bytes of a mail that are looked at; the text stands at its beginning.
pub(super) const MAIL_BYTES_MAX: usize = 1 << 20;
/// Longest headers, in bytes.
const HEADER_BYTES_MAX: usize = 256 * 1024;
/// Most parts of a mail. What nests deep has many.
const PARTS_MAX: usize = 200;
/// Most references that are handed on, the nearest ones.
const REFERENCES_MAX: usize = 50;
/// Most addresses that are looked at for the secret one.
const ADDRESSES_MAX: usize = 200;
/// What a short code begins with in a subject.
const CODE_PREFIX: &str = "[SB-";
/// Longest short code in a subject, in bytes.
const CODE_BYTES_MAX: usize = 16;

/// Reads mails.
#[derive(Debug, Clone)]
pub(super) struct Reader {
    /// The channel's configured name.
    pub channel: String,
    /// Our own address, normalised.
    pub from: String,
    pub reply: Option<ReplyAddress>,
    /// In lower case.
    pub authserv_id: Option<String>,
}

/// Why a mail cannot be read.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Unreadable {
    /// It is no mail.
    NoMail,
    /// Its headers are longer than 256 KiB.
    Headers,
    /// It has more than 200 parts.
    Parts,
    /// It does not say who wrote it.
    Sender,
}

impl Reader {
    /// What `bytes` say; they arrived at `at_ms`.
    pub fn read(&self, bytes: &[u8], at_ms: WallMs) -> Result<Incoming, Unreadable> {
        check(bytes)?;
        let mail = MessageParser::new().parse(bytes).ok_or(Unreadable::NoMail)?;
        if mail.parts.len() > PARTS_MAX {
            return Err(Unreadable::Parts);
        }
        let (from, sure) = sender(&mail).ok_or(Unreadable::Sender)?;
        let token = self.token(&mail, &from);
        let references = self.references(&mail, token.as_ref());
        let bounced = bounce::of(&mail, &references);
        let automatic = bounced.is_some() || is_automatic(&mail, &from, &self.from);
        let origin =
            if automatic { Origin::Automatic } else { self.origin(&mail, &from, sure, token.is_some()) };
        Ok(Incoming {
            channel: self.channel.clone(),
            event_id: event_id(&mail, bytes),
            from,
            origin,
            what: bounced.unwrap_or_else(|| IncomingKind::Text { text: text(&mail) }),
            message_id: None,
            place: None,
            references,
            at_ms,
        })
    }

    fn origin(&self, mail: &Message<'_>, from: &str, sure: bool, secret: bool) -> Origin {
        if !sure {
            return Origin::Claimed;
        }
        let verdict = self.authserv_id.as_deref().map_or(Verdict::Nothing, |id| verdict(mail, id, from));
        origin::of(secret, verdict)
    }

    /// The secret address that this mail was sent to, if it proves that `from` had the mail that named it.
    fn token(&self, mail: &Message<'_>, from: &str) -> Option<Token> {
        let reply = self.reply.as_ref()?;
        let listed = mail.all_to().chain(mail.all_cc()).flat_map(Address::iter);
        let listed = listed.filter_map(|address| address.address.as_deref());
        let delivered = raw(mail, "Delivered-To").chain(raw(mail, "X-Original-To"));
        let all = listed.chain(delivered).take(ADDRESSES_MAX);
        let mut tokens =
            all.filter_map(|to| reply.read(&address::normalise(to.trim_matches(['<', '>'])).ok()?));
        tokens.find(|token| reply.proves(token, from))
    }

    /// What this mail answers, nearest last: the code in its subject, the ids that it names, the mail whose secret address it went to.
    fn references(&self, mail: &Message<'_>, token: Option<&Token>) -> Vec<String> {
        let mut found: Vec<String> = code(mail.subject().unwrap_or_default()).into_iter().collect();
        found.extend(ids(mail.references()));
        found.extend(ids(mail.in_reply_to()));
        found.extend(token.map(|token| format!("{}@{}", token.delivery, address::domain(&self.from))));
        let mut nearest: Vec<String> = Vec::new();
        for id in found.into_iter().rev() {
            if nearest.len() < REFERENCES_MAX && !nearest.contains(&id) {
                nearest.push(id);
            }
        }
        nearest.reverse();
        nearest
    }
}

/// What would cost too much to parse is not parsed: each level of nesting, and each part, has a line that names its type.
fn check(bytes: &[u8]) -> Result<(), Unreadable> {
    let ends = |window: &[u8]| window == b"\n\r\n" || window.starts_with(b"\n\n");
    let header = bytes.windows(3).position(ends).unwrap_or(bytes.len());
    if header > HEADER_BYTES_MAX {
        return Err(Unreadable::Headers);
    }
    let named = |line: &&[u8]| line.len() >= 13 && line[..13].eq_ignore_ascii_case(b"content-type:");
    if bytes.split(|byte| *byte == b'\n').filter(named).nth(PARTS_MAX).is_some() {
        return Err(Unreadable::Parts);
    }
    Ok(())
}

/// The one who wrote it, and whether the mail leaves no doubt who that claims to be.
fn sender(mail: &Message<'_>) -> Option<(String, bool)> {
    let headers = raw(mail, "From").count();
    let mut addresses = mail.from()?.iter();
    let first = addresses.next()?.address.as_deref()?;
    Some((address::normalise(first).ok()?, headers == 1 && addresses.next().is_none()))
}

/// The person's words; a mail without any, as mail programs send it from a link, says what its subject says.
fn text(mail: &Message<'_>) -> String {
    let text = words::of(mail);
    let subject = crate::document::clean_line(mail.subject().unwrap_or_default());
    let answers = !ids(mail.in_reply_to()).is_empty();
    if text.is_empty() && !answers { subject.chars().take(200).collect() } else { text }
}

fn ids(value: &HeaderValue<'_>) -> Vec<String> {
    match value {
        HeaderValue::Text(id) => message_id(id).into_iter().collect(),
        HeaderValue::TextList(ids) => ids.iter().filter_map(|id| message_id(id)).collect(),
        _ => Vec::new(),
    }
}

/// `SB-K7QD` of a subject with `[SB-K7QD]`.
fn code(subject: &str) -> Option<String> {
    let at = subject.find(CODE_PREFIX)? + 1;
    let code = subject[at..].split(']').next()?;
    let shaped = code.len() <= CODE_BYTES_MAX && code.bytes().all(|b| b.is_ascii_alphanumeric() || b == b'-');
    (shaped && subject[at..].len() > code.len()).then(|| code.to_owned())
}

/// The mail's own id; without one what does not change when it is brought again.
fn event_id(mail: &Message<'_>, bytes: &[u8]) -> String {
    if let Some(id) = mail.message_id().and_then(message_id) {
        return id;
    }
    let mut digest = Sha256::new();
    let body = bytes.get(mail.root_part().raw_body_offset() as usize..).unwrap_or_default();
    for part in [joined(mail, "From").as_bytes(), joined(mail, "Date").as_bytes(), body] {
        digest.update((part.len() as u64).to_be_bytes());
        digest.update(part);
    }
    format!("sha256:{}", switchboard_core::ids::base32(&digest.finalize()))
}

fn joined(mail: &Message<'_>, name: &str) -> String {
    raw(mail, name).collect::<Vec<_>>().join("\n")
}
