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

    /// Whether it says that the address does not exist any more.
    pub fn address_is_gone(self) -> bool {
        let gone = match self.subject {
            // 7 and 8 are about the sender's address.
            1 => !matches!(self.detail, 7 | 8),
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

    fn is_policy(self) -> bool {
        self.class == 5 && self.subject == 7
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

/// What a refusal means for the next try.
pub(super) fn classify(stage: Stage, code: u16, status: Option<Status>) -> FailureClass {
    let is = |test: fn(Status) -> bool| status.is_some_and(test);
    if code < 500 {
        return FailureClass::Transient;
    }
    match (stage, code) {
        (Stage::Auth, _) | (_, 530 | 534 | 535 | 538) => FailureClass::Misconfigured,
        (Stage::Hello, _) => FailureClass::Transient,
        // Our own address or the right to use it; not the size of this mail.
        (Stage::Sender, _) if code != 552 && !is(|status| status.subject == 3) => FailureClass::Misconfigured,
        _ if is(Status::address_is_gone) => FailureClass::BadAddress,
        _ if is(Status::is_policy) => FailureClass::Misconfigured,
        (Stage::Recipient, 551) => FailureClass::BadAddress,
        _ => FailureClass::Permanent,
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use FailureClass::{BadAddress, Misconfigured, Permanent, Transient};

    #[test]
    fn refusals_mean_what_their_codes_say() {
        for (stage, code, text, class) in [
            (Stage::Hello, 421, "4.3.2 try later", Transient),
            (Stage::Hello, 554, "no", Transient),
            (Stage::Auth, 454, "4.7.0", Transient),
            (Stage::Auth, 535, "5.7.8", Misconfigured),
            (Stage::Sender, 530, "5.7.0 authentication required", Misconfigured),
            (Stage::Sender, 550, "5.1.8 no such domain", Misconfigured),
            (Stage::Sender, 552, "5.3.4 too big", Permanent),
            (Stage::Recipient, 550, "5.1.1 no such user", BadAddress),
            (Stage::Recipient, 550, "5.1.10 null MX", BadAddress),
            (Stage::Recipient, 551, "moved", BadAddress),
            (Stage::Recipient, 550, "mailbox unavailable", Permanent),
            (Stage::Recipient, 554, "5.7.1 relay access denied", Misconfigured),
            (Stage::Recipient, 552, "5.2.2 mailbox full", Permanent),
            (Stage::Recipient, 450, "4.7.1 greylisted", Transient),
            (Stage::Content, 550, "5.7.1 looks like spam", Misconfigured),
            (Stage::Content, 554, "5.6.0 bad content", Permanent),
            (Stage::Content, 452, "4.3.1 disk full", Transient),
        ] {
            assert_eq!(classify(stage, code, Status::at_start_of(text)), class, "{stage:?} {code} {text}");
        }
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
