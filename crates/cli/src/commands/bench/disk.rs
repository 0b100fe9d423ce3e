//! What no hub on this machine can beat: how often its disk takes data for good, and how long a packet travels to itself.

use super::histogram::Histogram;
use std::fs::File;
use std::io::{self, Read as _, Seek as _, SeekFrom, Write as _};
use std::net::{TcpListener, TcpStream};
use std::path::Path;
use std::time::Duration;
use switchboard_core::time::{Clock as _, SystemClock};

/// How long each is measured.
const MEASURED: Duration = Duration::from_millis(500);
const BLOCK_BYTES: usize = 4096;
/// Blocks that are written in turn, laid out beforehand so that no write changes the file's length.
const BLOCKS: u64 = 1024;
/// Size of the packet: a message and its envelope.
const PACKET_BYTES: usize = 512;

/// Writes of 4 KiB a second, each flushed to the disk of `dir`.
pub fn flushes_per_s(dir: &Path) -> io::Result<f64> {
    let mut file = tempfile::tempfile_in(dir)?;
    file.write_all(&vec![0; BLOCK_BYTES * usize::try_from(BLOCKS).unwrap_or(0)])?;
    file.sync_all()?;
    let clock = SystemClock::default();
    let (mut count, mut block) = (0_u32, 0);
    while clock.monotonic() < MEASURED {
        flush_one(&mut file, block)?;
        count += 1;
        block = (block + 1) % BLOCKS;
    }
    Ok(f64::from(count) / clock.monotonic().as_secs_f64())
}

fn flush_one(file: &mut File, block: u64) -> io::Result<()> {
    file.seek(SeekFrom::Start(block * BLOCK_BYTES as u64))?;
    file.write_all(&[1; BLOCK_BYTES])?;
    file.sync_data()
}

/// Microseconds from sending a packet over loopback until its echo is there, half of the time.
pub fn loopback_rtt_us() -> io::Result<f64> {
    let listener = TcpListener::bind("127.0.0.1:0")?;
    let mut near = TcpStream::connect(listener.local_addr()?)?;
    let (mut far, _) = listener.accept()?;
    near.set_nodelay(true)?;
    far.set_nodelay(true)?;
    let echo = std::thread::spawn(move || {
        let mut packet = [0; PACKET_BYTES];
        while far.read_exact(&mut packet).and_then(|()| far.write_all(&packet)).is_ok() {}
    });
    let clock = SystemClock::default();
    let mut trips = Histogram::new();
    let mut packet = [0; PACKET_BYTES];
    while clock.monotonic() < MEASURED {
        let sent = clock.monotonic();
        near.write_all(&packet)?;
        near.read_exact(&mut packet)?;
        trips.add(u64::try_from(clock.monotonic().saturating_sub(sent).as_nanos()).unwrap_or(u64::MAX));
    }
    drop(near);
    // It ends with the connection, and has nothing to tell.
    let _ = echo.join();
    Ok(trips.quantiles().p50 * 1000.0)
}
