//! Slack's signatures (<https://docs.slack.dev/authentication/verifying-requests-from-slack>): `v0=` and the hexadecimal HMAC-SHA256 over
//! `v0:TIMESTAMP:BODY`, with the app's signing secret.

use hmac::{Hmac, KeyInit as _, Mac as _};
use sha2::Sha256;
use switchboard_core::port::channel::Pushed;
use switchboard_core::time::WallMs;
use switchboard_core::{ExposeSecret as _, SecretString};

/// How far the time of a request may lie from ours, in seconds.
pub(super) const WINDOW_S: i64 = 300;

/// A signing secret, ready to verify.
pub(super) struct Key(Hmac<Sha256>);

impl Key {
    pub fn new(secret: &SecretString) -> Result<Self, String> {
        let key = Hmac::new_from_slice(secret.expose_secret().as_bytes());
        key.map(Self).map_err(|_| "signing_secret cannot be used".to_owned())
    }

    /// Whether the request was made by whoever has the secret, within [`WINDOW_S`] of `now_ms`.
    pub fn verifies(&self, pushed: &Pushed, now_ms: WallMs) -> bool {
        let Some(time) = pushed.header("x-slack-request-timestamp") else { return false };
        let Some(signature) = pushed.header("x-slack-signature").and_then(|value| value.strip_prefix("v0="))
        else {
            return false;
        };
        let digits = time.len() <= 12 && time.bytes().all(|byte| byte.is_ascii_digit());
        let Some(at_s) = digits.then(|| time.parse::<i64>().ok()).flatten() else { return false };
        if (now_ms.div_euclid(1000) - at_s).abs() > WINDOW_S {
            return false;
        }
        let Some(expected) = unhex(signature) else { return false };
        let mac = self.0.clone().chain_update(format!("v0:{time}:")).chain_update(&pushed.body);
        mac.verify_slice(&expected).is_ok()
    }
}

fn unhex(text: &str) -> Option<Vec<u8>> {
    let sound = text.len() == 64 && text.bytes().all(|byte| byte.is_ascii_hexdigit());
    let pairs = sound.then(|| text.as_bytes().chunks(2))?;
    pairs.map(|pair| u8::from_str_radix(std::str::from_utf8(pair).ok()?, 16).ok()).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    /// The example of Slack's documentation; `interop/chats` holds the same request to `slack_sdk.signature`.
    const SECRET: &str = "8f742231b10e8888abcd99yyyzzz85a5";
    const TIME: &str = "1531420618";
    const BODY: &str = "token=xyzz0WbapA4vBCDEFasx0q6G&team_id=T1DC2JH3J&team_domain=testteamnow&channel_id=G8PSS9T3V&channel_name=foobar&user_id=U2CERLKJA&user_name=roadrunner&command=%2Fwebhook-collect&text=&response_url=https%3A%2F%2Fhooks.slack.com%2Fcommands%2FT1DC2JH3J%2F397700885554%2F96rGlfmibIGlgcZRskXaIFfN&trigger_id=398738663015.47445629121.803a0bc887a14d10d2c447fce8b6703c";
    const SIGNATURE: &str = "v0=a2114d57b48eac39b9ad189dd8316235a7b4a8d21a10bd27519666489c69b503";

    fn verifies(time: &str, signature: &str, body: &str, now_s: i64) -> bool {
        let header = |name: &str, value: &str| (name.to_owned(), value.as_bytes().to_vec());
        let pushed = Pushed {
            headers: vec![header("x-slack-request-timestamp", time), header("x-slack-signature", signature)],
            query: String::new(),
            body: body.into(),
        };
        Key::new(&SECRET.into()).unwrap().verifies(&pushed, now_s * 1000)
    }

    #[test]
    fn slacks_own_example_verifies_and_nothing_near_it() {
        let now = 1_531_420_618;
        assert!(verifies(TIME, SIGNATURE, BODY, now));
        for skew in [-WINDOW_S, WINDOW_S] {
            assert!(verifies(TIME, SIGNATURE, BODY, now + skew));
        }
        for (time, signature, body, now) in [
            (TIME, SIGNATURE, BODY, now + WINDOW_S + 1),
            (TIME, SIGNATURE, BODY, now - WINDOW_S - 1),
            ("1531420619", SIGNATURE, BODY, now),
            (TIME, &SIGNATURE.replace('a', "b"), BODY, now),
            (TIME, &SIGNATURE[..65], BODY, now),
            (TIME, &SIGNATURE[3..], BODY, now),
            (TIME, "v0=", BODY, now),
            (TIME, SIGNATURE, &BODY[1..], now),
            ("-1531420618", SIGNATURE, BODY, now),
            ("99999999999999999999", SIGNATURE, BODY, now),
            ("", SIGNATURE, BODY, now),
        ] {
            assert!(!verifies(time, signature, body, now), "{time} {signature}");
        }
    }

    #[test]
    fn a_header_that_is_there_twice_is_none() {
        let header = |name: &str, value: &str| (name.to_owned(), value.as_bytes().to_vec());
        let headers = vec![
            header("x-slack-request-timestamp", TIME),
            header("x-slack-signature", SIGNATURE),
            header("x-slack-signature", SIGNATURE),
        ];
        let pushed = Pushed { headers, query: String::new(), body: BODY.into() };
        assert!(!Key::new(&SECRET.into()).unwrap().verifies(&pushed, 1_531_420_618_000));
    }
}
