//! A WebSocket client that costs little: many frames in one write, frames read where they lie in the buffer. The client
//! library does more for its callers and would use up what is to be measured.

use std::io;
use std::net::SocketAddr;
use tokio::io::Interest;
use tokio::net::TcpStream;

/// Bytes read at once.
const READ_BYTES: usize = 64 * 1024;
/// Largest frame taken from the hub.
const FRAME_BYTES_MAX: usize = 1 << 20;
/// A constant key: the answer to it is not checked, since the other side is the hub under test.
const KEY: &str = "c3dpdGNoYm9hcmQtYmVuYw==";

/// One connection.
#[derive(Debug)]
pub struct Wire {
    stream: TcpStream,
    read: Vec<u8>,
    /// What is read and not taken: `read[start..end]`.
    start: usize,
    end: usize,
    out: Vec<u8>,
    written: usize,
}

impl Wire {
    /// Connects, upgrades, says hello for one agent and waits until the present state was told.
    pub async fn open(address: SocketAddr, bearer: &str, hello: &str) -> io::Result<Self> {
        let stream = TcpStream::connect(address).await?;
        stream.set_nodelay(true)?;
        let mut wire = Self { stream, read: Vec::new(), start: 0, end: 0, out: Vec::new(), written: 0 };
        let request = format!(
            "GET /v1/bus HTTP/1.1\r\nHost: {address}\r\nConnection: Upgrade\r\nUpgrade: websocket\r\n\
             Sec-WebSocket-Version: 13\r\nSec-WebSocket-Key: {KEY}\r\nAuthorization: Bearer {bearer}\r\n\r\n"
        );
        wire.out.extend(request.as_bytes());
        wire.upgraded().await?;
        wire.push(hello.as_bytes());
        wire.push(br#"{"t":"ping","nonce":7}"#);
        loop {
            wire.exchange().await?;
            while let Some(frame) = wire.next()? {
                if frame.starts_with(br#"{"t":"pong""#) {
                    return Ok(wire);
                }
                if frame.starts_with(br#"{"t":"error""#) {
                    return Err(io::Error::other(String::from_utf8_lossy(frame).into_owned()));
                }
            }
        }
    }

    async fn upgraded(&mut self) -> io::Result<()> {
        loop {
            self.exchange().await?;
            let head = &self.read[self.start..self.end];
            let Some(at) = head.windows(4).position(|bytes| bytes == b"\r\n\r\n") else { continue };
            if !head.starts_with(b"HTTP/1.1 101") {
                let text = String::from_utf8_lossy(head).chars().take(400).collect::<String>();
                return Err(io::Error::other(format!("no upgrade: {text}")));
            }
            self.start += at + 4;
            return Ok(());
        }
    }

    /// Adds a text frame to what goes out with the next [`Wire::exchange`].
    pub fn push(&mut self, text: &[u8]) {
        self.out.push(0x81);
        // The high bit of the length says that a mask follows.
        if let Ok(short @ ..=125) = u8::try_from(text.len()) {
            self.out.push(0x80 | short);
        } else if let Ok(long) = u16::try_from(text.len()) {
            self.out.push(0x80 | 0x7e);
            self.out.extend(long.to_be_bytes());
        } else {
            self.out.push(0x80 | 0x7f);
            self.out.extend((text.len() as u64).to_be_bytes());
        }
        // A mask of zeros: its purpose is to confuse proxies, of which there are none here, and the hub's work is the same.
        self.out.extend([0; 4]);
        self.out.extend(text);
    }

    /// Writes what can be written, waits until something can be read, reads it. Reading never waits for writing: the hub
    /// may be waiting for us.
    pub async fn exchange(&mut self) -> io::Result<()> {
        loop {
            self.write()?;
            let is_pending = self.written < self.out.len();
            let interest =
                if is_pending { Interest::READABLE | Interest::WRITABLE } else { Interest::READABLE };
            let ready = self.stream.ready(interest).await?;
            if ready.is_readable() && self.fill()? {
                return Ok(());
            }
        }
    }

    fn write(&mut self) -> io::Result<()> {
        while self.written < self.out.len() {
            match self.stream.try_write(&self.out[self.written..]) {
                Ok(count) => self.written += count,
                Err(error) if error.kind() == io::ErrorKind::WouldBlock => return Ok(()),
                Err(error) => return Err(error),
            }
        }
        self.out.clear();
        self.written = 0;
        Ok(())
    }

    /// Reads what is there; whether anything was.
    fn fill(&mut self) -> io::Result<bool> {
        if self.start > 0 {
            self.read.copy_within(self.start..self.end, 0);
            self.end -= self.start;
            self.start = 0;
        }
        if self.read.len() < self.end + READ_BYTES {
            self.read.resize(self.end + READ_BYTES, 0);
        }
        match self.stream.try_read(&mut self.read[self.end..]) {
            Ok(0) => Err(io::Error::new(io::ErrorKind::UnexpectedEof, "the hub closed the connection")),
            Ok(count) => {
                self.end += count;
                Ok(true)
            }
            Err(error) if error.kind() == io::ErrorKind::WouldBlock => Ok(false),
            Err(error) => Err(error),
        }
    }

    /// The next text frame that was read completely.
    pub fn next(&mut self) -> io::Result<Option<&[u8]>> {
        loop {
            let read = &self.read[self.start..self.end];
            let Some((kind, from, length)) = header(read)? else { return Ok(None) };
            if read.len() < from + length {
                return Ok(None);
            }
            let payload = self.start + from..self.start + from + length;
            self.start = payload.end;
            match kind {
                0x1 => return Ok(Some(&self.read[payload])),
                0x8 => {
                    let why = String::from_utf8_lossy(&self.read[payload]).into_owned();
                    return Err(io::Error::other(format!("the hub closed the connection: {why}")));
                }
                _ => {}
            }
        }
    }

    /// Lets go of all memory, and keeps the connection.
    pub fn into_stream(self) -> TcpStream {
        self.stream
    }
}

/// Kind of a frame, where its payload begins, and how long it is; `None` while the header is not complete.
fn header(read: &[u8]) -> io::Result<Option<(u8, usize, usize)>> {
    let &[first, second, ..] = read else { return Ok(None) };
    let (from, length) = match second {
        126 => match read.get(2..4) {
            Some(bytes) => (4, bytes.iter().fold(0, |length, byte| length << 8 | u64::from(*byte))),
            None => return Ok(None),
        },
        127 => match read.get(2..10) {
            Some(bytes) => (10, bytes.iter().fold(0, |length, byte| length << 8 | u64::from(*byte))),
            None => return Ok(None),
        },
        short => (2, u64::from(short)),
    };
    let is_whole = first & 0x80 != 0 && second & 0x80 == 0;
    match usize::try_from(length) {
        Ok(length) if is_whole && length <= FRAME_BYTES_MAX => Ok(Some((first & 0x0f, from, length))),
        _ => Err(io::Error::other("the hub sent a frame this bench cannot read")),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn headers_of_every_length_are_read() {
        assert_eq!(header(&[0x81]).unwrap(), None);
        assert_eq!(header(&[0x81, 5]).unwrap(), Some((1, 2, 5)));
        assert_eq!(header(&[0x81, 126, 1]).unwrap(), None);
        assert_eq!(header(&[0x81, 126, 1, 0]).unwrap(), Some((1, 4, 256)));
        assert_eq!(header(&[0x81, 127, 0, 0, 0, 0, 0, 1, 0, 0]).unwrap(), Some((1, 10, 65_536)));
        assert!(header(&[0x01, 5]).is_err(), "a fragment");
        assert!(header(&[0x81, 127, 1, 0, 0, 0, 0, 0, 0, 0]).is_err(), "too long");
    }
}
