//! What a message of the bench says about itself: in its id for the sender, in the head of its text for receivers.

const CROCKFORD: &[u8; 32] = b"0123456789ABCDEFGHJKMNPQRSTVWXYZ";
/// Characters of an id: those of a ULID, which sorts by time.
pub const ID_CHARS: usize = 26;
/// Decimal digits of sender, number and time in a text, each with a blank behind.
const SENDER_DIGITS: usize = 5;
const NUMBER_DIGITS: usize = 12;
const TIME_DIGITS: usize = 18;
/// Bytes at the start of a text that say which message it is.
pub const HEAD_BYTES: usize = SENDER_DIGITS + NUMBER_DIGITS + TIME_DIGITS + 3;

/// The id of message `number` of `sender`: milliseconds first, so that the hub's index of ids grows at its end.
pub fn put_id(out: &mut [u8], unix_ms: u64, run: u16, sender: u16, number: u64) {
    let bits = u128::from(unix_ms & 0xffff_ffff_ffff) << 80
        | u128::from(run) << 64
        | u128::from(sender) << 48
        | u128::from(number & 0xffff_ffff_ffff);
    for (place, byte) in out[..ID_CHARS].iter_mut().rev().enumerate() {
        *byte = CROCKFORD[usize::try_from(bits >> (place * 5) & 31).unwrap_or(0)];
    }
}

/// The number in an id.
pub fn number(id: &[u8]) -> Option<u64> {
    let digit = |byte: &u8| CROCKFORD.iter().position(|known| known == byte).map(|at| at as u64);
    let low = id.get(ID_CHARS - 10..ID_CHARS)?;
    let bits = low.iter().try_fold(0, |bits, byte| Some(bits << 5 | digit(byte)?))?;
    Some(bits & 0xffff_ffff_ffff)
}

/// Which message a text is.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Head {
    /// Its sender.
    pub sender: usize,
    /// Counted by the sender from 0.
    pub number: u64,
    /// When it was sent, in nanoseconds of the bench's clock.
    pub sent_ns: u64,
}

impl Head {
    /// Writes it over the start of a text.
    pub fn put(self, text: &mut [u8]) {
        let (sender, rest) = text.split_at_mut(SENDER_DIGITS + 1);
        let (number, time) = rest.split_at_mut(NUMBER_DIGITS + 1);
        put_digits(&mut sender[..SENDER_DIGITS], self.sender as u64);
        put_digits(&mut number[..NUMBER_DIGITS], self.number);
        put_digits(&mut time[..TIME_DIGITS], self.sent_ns);
    }

    /// Reads it.
    pub fn read(text: &[u8]) -> Option<Self> {
        let (sender, rest) = text.split_at_checked(SENDER_DIGITS + 1)?;
        let (number, time) = rest.split_at_checked(NUMBER_DIGITS + 1)?;
        Some(Self {
            sender: usize::try_from(digits(&sender[..SENDER_DIGITS])?).ok()?,
            number: digits(&number[..NUMBER_DIGITS])?,
            sent_ns: digits(time.get(..TIME_DIGITS)?)?,
        })
    }
}

fn put_digits(out: &mut [u8], mut value: u64) {
    for byte in out.iter_mut().rev() {
        *byte = b'0' + u8::try_from(value % 10).unwrap_or(0);
        value /= 10;
    }
}

fn digits(text: &[u8]) -> Option<u64> {
    text.iter()
        .try_fold(0, |value: u64, byte| byte.is_ascii_digit().then(|| value * 10 + u64::from(byte - b'0')))
}

/// The number behind `name` near the start of a frame.
pub fn number_after(frame: &[u8], name: &[u8]) -> Option<u64> {
    let near = &frame[..frame.len().min(256)];
    let from = near.windows(name.len()).position(|bytes| bytes == name)? + name.len();
    let count = near[from..].iter().take_while(|byte| byte.is_ascii_digit()).count();
    digits(&near[from..from + count]).filter(|_| count > 0)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn ids_sort_by_time_and_give_their_number_back() {
        let id = |ms, number| {
            let mut out = [0; ID_CHARS];
            put_id(&mut out, ms, 7, 3, number);
            out
        };
        assert!(id(1, u64::MAX) < id(2, 0) && id(1, 1) < id(1, 2));
        for number_in in [0, 1, 31, 32, 1 << 40, (1 << 48) - 1] {
            assert_eq!(number(&id(u64::MAX, number_in)), Some(number_in));
        }
        let text = String::from_utf8(id(5, 6).to_vec()).unwrap();
        assert!(switchboard_protocol::text::validate_id(&text, "id").is_ok());
    }

    #[test]
    fn heads_are_read_back() {
        let mut text = vec![b' '; HEAD_BYTES + 4];
        let head = Head { sender: 64, number: 123_456_789, sent_ns: 9_876_543_210 };
        head.put(&mut text);
        assert_eq!(Head::read(&text), Some(head));
        assert_eq!(text[HEAD_BYTES - 1], b' ');
        assert_eq!(Head::read(b"00001 x"), None);
    }

    #[test]
    fn numbers_are_found_by_name() {
        assert_eq!(number_after(br#"{"a":"b","seq":42,"#, br#""seq":"#), Some(42));
        assert_eq!(number_after(br#"{"seq":"x"}"#, br#""seq":"#), None);
    }
}
