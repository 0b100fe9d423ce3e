//! How well the sender of a mail is known, and whether a machine wrote it. Taking a mail, saying who wrote it and believing that are three
//! things: a mail that proves nothing is taken all the same.

use super::address;
use super::compose::OWN_HEADER;
use super::results::{self, Method};
use mail_parser::Message;
use switchboard_core::port::channel::Origin;

/// Local parts that no person writes from.
const MACHINES: [&str; 4] = ["mailer-daemon", "postmaster", "no-reply", "noreply"];

/// Values of a header as they stand there, topmost first.
pub(super) fn raw<'m>(mail: &'m Message<'_>, name: &'m str) -> impl Iterator<Item = &'m str> {
    mail.headers_raw()
        .filter(move |(found, _)| found.eq_ignore_ascii_case(name))
        .map(|(_, value)| value.trim())
}

/// Whether a machine wrote it: absence notes, lists, bounces, and our own mails that come back (RFC 3834 and what is in use).
pub(super) fn is_automatic(mail: &Message<'_>, from: &str, ours: &str) -> bool {
    let has = |name: &str| raw(mail, name).next().is_some();
    let is = |name: &str, test: &dyn Fn(&str) -> bool| {
        raw(mail, name).any(|value| test(&value.to_ascii_lowercase()))
    };
    let local = from.split('@').next().unwrap_or_default();
    from == ours
        || MACHINES.contains(&local)
        || is("Auto-Submitted", &|value| !value.starts_with("no"))
        || is("Precedence", &|value| matches!(value, "bulk" | "junk" | "list" | "auto_reply"))
        || is("Return-Path", &|value| value == "<>")
        || ["X-Auto-Response-Suppress", "X-Autoreply", "X-Autorespond", "List-Id", OWN_HEADER]
            .into_iter()
            .any(has)
}

/// What the receiving server's `Authentication-Results` say.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Verdict {
    /// The domain of the sender's address stands for the mail.
    Passed,
    /// The domain says that the mail is not from it, or it cannot be told what is said.
    Failed,
    /// Neither.
    Nothing,
}

/// Only the topmost header counts, and only if the trusted server has written it: any other may have come with the mail.
pub(super) fn verdict(mail: &Message<'_>, authserv_id: &str, from: &str) -> Verdict {
    let Some(header) = raw(mail, "Authentication-Results").next() else { return Verdict::Nothing };
    let results = results::read(header);
    if results.server != authserv_id {
        return Verdict::Nothing;
    }
    // Somebody's quote may hide what the server has against the mail.
    if !results.whole {
        return Verdict::Failed;
    }
    let domain = address::domain(from);
    let verdicts: Vec<_> = results.methods.iter().map(|method| result(method, domain)).collect();
    if verdicts.contains(&Verdict::Failed) {
        return Verdict::Failed;
    }
    if verdicts.contains(&Verdict::Passed) { Verdict::Passed } else { Verdict::Nothing }
}

fn result(method: &Method, domain: &str) -> Verdict {
    let passed = match (method.name.as_str(), method.result.as_str()) {
        ("dmarc", "fail") => return Verdict::Failed,
        // A pass that does not say whose it is may be that of any domain.
        ("dmarc", "pass") => all(method.values("header.from"), |from| from == domain),
        ("dkim", "pass") => is_signed(method, domain),
        _ => false,
    };
    if passed { Verdict::Passed } else { Verdict::Nothing }
}

fn is_signed(method: &Method, domain: &str) -> bool {
    let aligned = |signer: &str| is_aligned(signer, domain);
    if method.values("header.d").next().is_some() {
        return all(method.values("header.d"), aligned);
    }
    all(method.values("header.i"), |identity| identity.rsplit('@').next().is_some_and(aligned))
}

/// Whether there are values and all are good: of two that differ one is somebody else's.
fn all<'m>(mut values: impl Iterator<Item = &'m str>, good: impl Fn(&str) -> bool) -> bool {
    values.next().is_some_and(&good) && values.all(good)
}

/// Relaxed alignment (RFC 7489, 3.1.1) without a list of public suffixes: the signer is the domain or above it. Nobody signs for a top-level
/// domain.
fn is_aligned(signer: &str, domain: &str) -> bool {
    let above = domain.strip_suffix(signer).is_some_and(|rest| rest.ends_with('.'));
    signer == domain || above && signer.contains('.')
}

/// The origin of a mail that no machine wrote.
pub(super) fn of(secret: bool, verdict: Verdict) -> Origin {
    match (secret, verdict) {
        // Who has the mail may still write under a false name; what the name's own domain says against it weighs more.
        (_, Verdict::Failed) | (false, Verdict::Nothing) => Origin::Claimed,
        (true, _) => Origin::Verified { by: "secret_address".to_owned() },
        (false, Verdict::Passed) => Origin::Verified { by: "authentication-results".to_owned() },
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use mail_parser::MessageParser;

    fn verdict_of(headers: &str) -> Verdict {
        let mail = format!("{headers}From: ada@mail.example.org\r\n\r\nx");
        verdict(&MessageParser::new().parse(&mail).unwrap(), "mx.ours.test", "ada@mail.example.org")
    }

    #[test]
    fn only_our_servers_topmost_word_counts() {
        let ours = "Authentication-Results: mx.ours.test;";
        for (headers, expected) in [
            (format!("{ours} dmarc=pass (p=REJECT) header.from=mail.example.org\r\n"), Verdict::Passed),
            (
                format!("{ours}\r\n dkim=pass header.d=example.org header.s=a;\r\n spf=pass\r\n"),
                Verdict::Passed,
            ),
            (format!("{ours} dkim=pass header.i=@mail.example.org\r\n"), Verdict::Passed),
            (format!("{ours} dkim=pass header.d=evil.test\r\n"), Verdict::Nothing),
            (format!("{ours} dkim=pass header.d=org\r\n"), Verdict::Nothing),
            (format!("{ours} dkim=pass header.d=xample.org\r\n"), Verdict::Nothing),
            (
                format!("{ours} dkim=fail header.d=example.org; spf=pass smtp.mailfrom=example.org\r\n"),
                Verdict::Nothing,
            ),
            (
                format!("{ours} dkim=pass header.d=example.org; dmarc=fail header.from=mail.example.org\r\n"),
                Verdict::Failed,
            ),
            (format!("{ours} dmarc=pass header.from=evil.test\r\n"), Verdict::Nothing),
            (format!("{ours} none (dmarc=pass)\r\n"), Verdict::Nothing),
            ("Authentication-Results: evil.test; dmarc=pass\r\n".to_owned(), Verdict::Nothing),
            (
                format!("Authentication-Results: evil.test; dmarc=fail\r\n{ours} dmarc=pass\r\n"),
                Verdict::Nothing,
            ),
            (
                format!("Authentication-Results: (mx.ours.test;) evil.test; dmarc=pass\r\n{ours} none\r\n"),
                Verdict::Nothing,
            ),
            (String::new(), Verdict::Nothing),
        ] {
            assert_eq!(verdict_of(&headers), expected, "{headers}");
        }
    }

    #[test]
    fn what_the_sender_can_put_into_an_address_is_no_verdict() {
        let ours = "Authentication-Results: mx.ours.test;";
        let good = "header.from=mail.example.org";
        for (results, expected) in [
            (format!("spf=pass smtp.mailfrom=\"x; dmarc=pass {good} y\"@evil.test"), Verdict::Nothing),
            (format!("spf=pass smtp.mailfrom=\"x\\\"; dmarc=pass {good} y\"@evil.test"), Verdict::Nothing),
            (format!("spf=pass smtp.mailfrom=x dmarc=pass {good}"), Verdict::Nothing),
            (format!("spf=pass smtp.mailfrom=\"x(\"@evil.test; dmarc=fail {good}"), Verdict::Failed),
            (format!("spf=pass smtp.mailfrom=\"x@evil.test; dmarc=fail {good}"), Verdict::Failed),
            (format!("spf=pass (x; \" y) smtp.mailfrom=z; dmarc=pass {good}"), Verdict::Passed),
            ("dmarc=pass header.from=\"mail.example.org\"".to_owned(), Verdict::Passed),
            (format!("dmarc = pass (a) {good}"), Verdict::Passed),
            (format!("dmarc/1=fail {good}"), Verdict::Failed),
            ("dmarc=pass".to_owned(), Verdict::Nothing),
            ("dmarc=pass (header.from=mail.example.org)".to_owned(), Verdict::Nothing),
            (format!("dmarc=pass {good} header.from=evil.test"), Verdict::Nothing),
            ("dkim=pass header.d=evil.test header.d=example.org".to_owned(), Verdict::Nothing),
            ("dkim=pass header.i=\"@example.org\"@evil.test".to_owned(), Verdict::Nothing),
        ] {
            assert_eq!(verdict_of(&format!("{ours} {results}\r\n")), expected, "{results}");
        }
    }

    #[test]
    fn machines_are_known_by_what_they_say_of_themselves() {
        let automatic = |headers: &str, from: &str| {
            let mail = format!("{headers}From: {from}\r\n\r\nx");
            is_automatic(&MessageParser::new().parse(&mail).unwrap(), from, "hub@ours.test")
        };
        for headers in [
            "Auto-Submitted: auto-replied\r\n",
            "auto-submitted: Auto-Generated\r\n",
            "Precedence: bulk\r\n",
            "Return-Path: <>\r\n",
            "X-Auto-Response-Suppress: All\r\n",
            "List-Id: <all.example.org>\r\n",
            "X-Switchboard-Delivery: dlv_1\r\n",
        ] {
            assert!(automatic(headers, "ada@example.org"), "{headers}");
        }
        for from in ["mailer-daemon@example.org", "no-reply@x.test", "hub@ours.test"] {
            assert!(automatic("", from), "{from}");
        }
        assert!(!automatic("Auto-Submitted: no\r\nReturn-Path: <ada@example.org>\r\n", "ada@example.org"));
    }
}
