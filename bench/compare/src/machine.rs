//! The machine's own limits: what no server that syncs before it acknowledges can go below.

use std::io::{Read, Write};
use std::net::{TcpListener, TcpStream};
use std::os::unix::fs::{FileExt, MetadataExt};
use std::path::Path;
use std::time::{Duration, Instant};

use anyhow::{Context, Result};
use serde::Serialize;

use crate::histogram::Histogram;
use crate::load::BODY_BYTES;

const BLOCK_BYTES: usize = 4096;
const FILE_BYTES: usize = 64 << 20;

/// One round's figures of the disk and of the loopback interface.
#[derive(Debug, Clone, Copy, Serialize)]
pub struct Limits {
    /// Writes of 4 KiB into a preallocated file, each followed by fdatasync, per second.
    pub fdatasync_per_s: f64,
    /// Median of one such write and sync, milliseconds.
    pub fdatasync_p50_ms: f64,
    /// 99th percentile of the same, milliseconds.
    pub fdatasync_p99_ms: f64,
    /// Median round trip of a 350-byte request over loopback TCP to an echo thread, microseconds.
    pub loopback_rtt_us: f64,
}

/// Measures for about `length`, most of it on the disk that holds `dir`.
pub fn measure(dir: &Path, length: Duration) -> Result<Limits> {
    let disk = Histogram::default();
    let writes = sync_writes(dir, length.mul_f64(0.75), &disk)?;
    let sync = disk.quantiles();
    Ok(Limits {
        fdatasync_per_s: writes,
        fdatasync_p50_ms: sync.p50,
        fdatasync_p99_ms: sync.p99,
        loopback_rtt_us: loopback_rtt_us(length.mul_f64(0.25))?,
    })
}

fn sync_writes(dir: &Path, length: Duration, took: &Histogram) -> Result<f64> {
    let file = tempfile::tempfile_in(dir).context("create the file for the sync measure")?;
    // Zeros are written, not only reserved: else each sync would also commit an extent conversion.
    file.write_all_at(&vec![0; FILE_BYTES], 0)?;
    file.sync_all()?;
    let block = [b'x'; BLOCK_BYTES];
    let (start, mut writes) = (Instant::now(), 0_u64);
    while start.elapsed() < length {
        let begun = Instant::now();
        let offset = writes * BLOCK_BYTES as u64 % FILE_BYTES as u64;
        file.write_all_at(&block, offset)?;
        file.sync_data()?;
        took.record(begun.elapsed(), 1);
        writes += 1;
    }
    Ok(writes as f64 / start.elapsed().as_secs_f64())
}

fn loopback_rtt_us(length: Duration) -> Result<f64> {
    let listener = TcpListener::bind(("127.0.0.1", 0))?;
    let address = listener.local_addr()?;
    let echo = std::thread::spawn(move || echo_until_closed(&listener));
    let mut stream = TcpStream::connect(address)?;
    stream.set_nodelay(true)?;
    let mut buffer = [b'x'; BODY_BYTES];
    let mut rtts = Vec::new();
    let start = Instant::now();
    while start.elapsed() < length {
        let begun = Instant::now();
        stream.write_all(&buffer)?;
        stream.read_exact(&mut buffer)?;
        rtts.push(begun.elapsed());
    }
    drop(stream);
    let _ = echo.join();
    rtts.sort_unstable();
    Ok(rtts.get(rtts.len() / 2).map_or(0.0, |rtt| rtt.as_secs_f64() * 1e6))
}

fn echo_until_closed(listener: &TcpListener) -> std::io::Result<()> {
    let (mut stream, _) = listener.accept()?;
    stream.set_nodelay(true)?;
    let mut buffer = [0; BODY_BYTES];
    loop {
        stream.read_exact(&mut buffer)?;
        stream.write_all(&buffer)?;
    }
}

/// Cache flushes that the device under `dir` has completed since boot, for all programs together;
/// `None` where `/proc/diskstats` does not count them. Evidence that a server's syncs reach the disk.
pub fn device_flushes(dir: &Path) -> Option<u64> {
    let device = std::fs::metadata(dir).ok()?.dev();
    let (major, minor) = (rustix::fs::major(device), rustix::fs::minor(device));
    flushes_in(&std::fs::read_to_string("/proc/diskstats").ok()?, major, minor)
}

/// Field 19 of the device's line (Linux Documentation/admin-guide/iostats.rst counts it as field 16).
fn flushes_in(diskstats: &str, major: u32, minor: u32) -> Option<u64> {
    diskstats.lines().find_map(|line| {
        let fields: Vec<&str> = line.split_whitespace().collect();
        let own = fields.first()?.parse() == Ok(major) && fields.get(1)?.parse() == Ok(minor);
        if own { fields.get(18)?.parse().ok() } else { None }
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn both_limits_are_measured() {
        let folder = tempfile::tempdir().unwrap();
        let limits = measure(folder.path(), Duration::from_millis(80)).unwrap();
        assert!(limits.fdatasync_per_s > 0.0 && limits.fdatasync_p50_ms > 0.0);
        assert!(limits.fdatasync_p99_ms >= limits.fdatasync_p50_ms);
        assert!(limits.loopback_rtt_us > 0.0);
    }

    #[test]
    fn the_flush_column_of_the_right_device_is_read() {
        let text = "254 0 vda 1 2 3 4 5 6 7 8 9 10 11 12 13 14 15 77 17\n254 16 vdb 1";
        assert_eq!(flushes_in(text, 254, 0), Some(77));
        assert_eq!(flushes_in(text, 254, 16), None);
        assert_eq!(flushes_in(text, 8, 0), None);
    }
}
