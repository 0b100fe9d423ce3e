//! Enhanced status codes (RFC 3463): what a mail server's refusal means, at the time of sending and in a bounce alike.

use switchboard_core::port::channel::FailureClass;

/// A status such as 5.1.1.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) struct Status {
    pub class: u16,
    pub subject: u16,
    pub detail: u16,
}

impl Status {
    /// Reads one at the beginning of `text`.
    pub fn at_start_of(text: &str) -> Option<Self> {
        let word = text.split_whitespace().next()?;
        let mut numbers = word.splitn(3, '.').map(|number| number.parse::<u16>().ok().filter(|n| *n < 1000));
        let (class, subject, detail) = (numbers.next()??, numbers.next()??, numbers.next()??);
        matches!(class, 2 | 4 | 5).then_some(Self { class, subject, detail })
    }

    /// Whether it says that the address does not exist any more. 5.1.0 says only that something is wrong with some address, often with
    /// the sender's.
    pub fn address_is_gone(self) -> bool {
        let gone = match self.subject {
            1 => matches!(self.detail, 1..=4 | 6 | 10),
            2 => self.detail == 1,
            4 => self.detail == 4,
            _ => false,
        };
        self.class == 5 && gone
    }

    /// Whether a bounce with it means that the address is gone for good. A status without a subject is what a server makes of a
    /// refusal that it does not understand; refusals of policy, size, content and protocol are about the mail and not about the address.
    pub fn bounce_is_permanent(self) -> bool {
        self.class == 5 && (self.address_is_gone() || self.subject == 0)
    }

    /// Whether it is about the sender's address.
    fn is_sender(self) -> bool {
        self.subject == 1 && matches!(self.detail, 7 | 8)
    }

    /// Whether it is about how we have signed in (RFC 4954 and RFC 3463): wrong credentials, too weak a way, no encryption.
    fn is_sign_in(self) -> bool {
        self.subject == 7 && matches!(self.detail, 8 | 9 | 11)
    }

    /// Whether the mailbox takes nothing for the time being, whatever the class says.
    fn mailbox_is_full(self) -> bool {
        (self.subject, self.detail) == (2, 2)
    }

    /// Whether it is about size or content, and not about who sends.
    fn is_about_the_mail(self) -> bool {
        matches!(self.subject, 3 | 6)
    }

    fn is_policy(self) -> bool {
        self.subject == 7
    }
}

/// At which command a server refused.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Stage {
    /// Greeting, EHLO, STARTTLS.
    Hello,
    /// AUTH.
    Auth,
    /// MAIL.
    Sender,
    /// RCPT.
    Recipient,
    /// DATA and the reply to its end.
    Content,
}

/// How long a server that is only getting to know us (greylisting), or has had much from us, is left alone: most want five minutes.
const GREY_MS: u64 = 5 * 60 * 1000;
/// How long a full mailbox is left alone. Nobody tidies up within seconds.
const FULL_MS: u64 = 15 * 60 * 1000;

/// What a refusal means for the next try. Only what would meet every mail alike is our set-up's fault: a refusal of policy at RCPT or DATA
/// (5.7.1: spam, relaying, a blocked sender) is about this recipient or this mail, and says nothing of the next one.
pub(super) fn classify(stage: Stage, code: u16, status: Option<Status>) -> FailureClass {
    let is = |test: fn(Status) -> bool| status.is_some_and(test);
    let before_mail = matches!(stage, Stage::Hello | Stage::Auth);
    if code < 500 {
        let grey = !before_mail && is(Status::is_policy) && !is(Status::is_sign_in);
        return if grey { FailureClass::Throttled } else { FailureClass::Transient };
    }
    match (stage, code) {
        (Stage::Auth, _) | (_, 530 | 534 | 535 | 538) => FailureClass::Misconfigured,
        _ if is(Status::is_sign_in) => FailureClass::Misconfigured,
        (Stage::Hello, _) => FailureClass::Transient,
        // Some servers look at the sender only when they hear for whom it is.
        _ if is(Status::is_sender) => FailureClass::Misconfigured,
        // Our own address or the right to use it; not this mail.
        (Stage::Sender, _) if code != 552 && !is(Status::is_about_the_mail) => FailureClass::Misconfigured,
        _ if is(Status::mailbox_is_full) => FailureClass::Transient,
        _ if is(Status::address_is_gone) => FailureClass::BadAddress,
        (Stage::Recipient, 551 | 556) if status.is_none() => FailureClass::BadAddress,
        (Stage::Recipient, 552) if status.is_none() => FailureClass::Transient,
        _ => FailureClass::Permanent,
    }
}

/// How long to wait before the next try, in milliseconds, where seconds would be of no use.
pub(super) fn pause_ms(class: FailureClass, status: Option<Status>) -> Option<u64> {
    match class {
        FailureClass::Throttled => Some(GREY_MS),
        FailureClass::Transient if status.is_some_and(Status::mailbox_is_full) => Some(FULL_MS),
        _ => None,
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use FailureClass::{BadAddress, Misconfigured, Permanent, Throttled, Transient};

    #[test]
    fn refusals_mean_what_their_codes_say() {
        for (stage, code, text, class) in [
            (Stage::Hello, 421, "4.3.2 try later", Transient),
            (Stage::Hello, 421, "4.7.0 too many connections", Transient),
            (Stage::Hello, 554, "no", Transient),
            (Stage::Hello, 554, "5.7.1 blocked", Transient),
            (Stage::Hello, 538, "encryption required", Misconfigured),
            (Stage::Auth, 454, "4.7.0", Transient),
            (Stage::Auth, 432, "4.7.12 password transition", Transient),
            (Stage::Auth, 535, "5.7.8", Misconfigured),
            (Stage::Auth, 535, "no", Misconfigured),
            (Stage::Auth, 534, "5.7.9 too weak", Misconfigured),
            (Stage::Auth, 504, "5.5.4 unknown mechanism", Misconfigured),
            (Stage::Sender, 421, "4.7.28 rate limit", Throttled),
            (Stage::Sender, 451, "4.3.0 later", Transient),
            (Stage::Sender, 530, "5.7.0 authentication required", Misconfigured),
            (Stage::Sender, 550, "5.1.8 no such domain", Misconfigured),
            (Stage::Sender, 553, "5.1.7 bad address", Misconfigured),
            (Stage::Sender, 553, "5.7.1 not owned by user", Misconfigured),
            (Stage::Sender, 550, "no", Misconfigured),
            (Stage::Sender, 552, "5.3.4 too big", Permanent),
            (Stage::Sender, 552, "too big", Permanent),
            (Stage::Sender, 553, "5.6.7 needs SMTPUTF8", Permanent),
            (Stage::Recipient, 530, "5.7.0 authentication required", Misconfigured),
            (Stage::Recipient, 550, "5.7.8 sign in first", Misconfigured),
            (Stage::Recipient, 550, "5.7.9 too weak", Misconfigured),
            (Stage::Recipient, 554, "5.7.11 encryption needed", Misconfigured),
            (Stage::Recipient, 550, "5.1.8 sender's domain not found", Misconfigured),
            (Stage::Recipient, 550, "5.1.1 no such user", BadAddress),
            (Stage::Recipient, 550, "5.1.2 no such domain", BadAddress),
            (Stage::Recipient, 550, "5.1.6 moved", BadAddress),
            (Stage::Recipient, 550, "5.1.10 null MX", BadAddress),
            (Stage::Recipient, 556, "no mail here", BadAddress),
            (Stage::Recipient, 550, "5.2.1 disabled", BadAddress),
            (Stage::Recipient, 551, "moved", BadAddress),
            (Stage::Recipient, 551, "5.7.1 relaying denied", Permanent),
            (Stage::Recipient, 550, "5.1.0 address rejected", Permanent),
            (Stage::Recipient, 550, "mailbox unavailable", Permanent),
            (Stage::Recipient, 554, "5.7.1 relay access denied", Permanent),
            (Stage::Recipient, 550, "5.7.1 blocked by policy", Permanent),
            (Stage::Recipient, 550, "5.7.26 unauthenticated mail", Permanent),
            (Stage::Recipient, 552, "5.2.2 mailbox full", Transient),
            (Stage::Recipient, 552, "over quota", Transient),
            (Stage::Recipient, 452, "4.2.2 mailbox full", Transient),
            (Stage::Recipient, 450, "4.7.1 greylisted", Throttled),
            (Stage::Recipient, 451, "4.7.1 greylisted", Throttled),
            (Stage::Recipient, 450, "mailbox busy", Transient),
            (Stage::Recipient, 450, "4.2.1 mailbox busy", Transient),
            (Stage::Recipient, 451, "4.3.0 later", Transient),
            (Stage::Recipient, 452, "4.5.3 too many recipients", Transient),
            (Stage::Recipient, 421, "4.3.2 shutting down", Transient),
            (Stage::Content, 550, "5.7.1 looks like spam", Permanent),
            (Stage::Content, 554, "5.7.1 refused by policy", Permanent),
            (Stage::Content, 554, "5.6.0 bad content", Permanent),
            (Stage::Content, 552, "5.3.4 too big", Permanent),
            (Stage::Content, 552, "5.2.2 mailbox full", Transient),
            (Stage::Content, 554, "no", Permanent),
            (Stage::Content, 550, "5.1.1 no such user after all", BadAddress),
            (Stage::Content, 452, "4.3.1 disk full", Transient),
            (Stage::Content, 451, "4.7.0 try again", Throttled),
        ] {
            assert_eq!(classify(stage, code, Status::at_start_of(text)), class, "{stage:?} {code} {text}");
        }
    }

    #[test]
    fn what_does_not_pass_within_seconds_is_not_tried_within_seconds() {
        let pause = |code, text| {
            let status = Status::at_start_of(text);
            pause_ms(classify(Stage::Recipient, code, status), status)
        };
        assert_eq!(pause(450, "4.7.1 greylisted"), Some(GREY_MS));
        assert_eq!((pause(452, "4.2.2 full"), pause(552, "5.2.2 full")), (Some(FULL_MS), Some(FULL_MS)));
        assert_eq!((pause(451, "4.3.0 later"), pause(550, "5.1.1 gone")), (None, None));
    }

    #[test]
    fn k55_what_a_bounce_says_of_the_address() {
        for (text, permanent) in [
            ("5.1.1", true),
            ("5.0.0", true),
            ("5.2.1", true),
            ("4.4.7", false),
            ("5.7.1", false),
            ("5.2.2", false),
        ] {
            let status = Status::at_start_of(text).unwrap();
            assert_eq!(status.bounce_is_permanent(), permanent, "{text}");
        }
        for wrong in ["", "5.1", "6.1.1", "5.1.x", "5.1.99999", "550 5.1.1"] {
            assert_eq!(Status::at_start_of(wrong), None, "{wrong}");
        }
    }
}
