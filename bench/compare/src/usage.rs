//! CPU time and memory, read from `/proc` (proc(5)): of one server, and of all that is not this run.

use std::collections::HashMap;
use std::time::{Duration, Instant};

/// CPU time and memory of a process and its descendants at one moment.
#[derive(Debug, Clone, Copy, Default)]
pub struct Usage {
    /// User and system time, with that of descendants that ended and were waited for.
    pub cpu: Duration,
    /// Resident memory in MiB; shared pages count once per process.
    pub rss_mb: f64,
}

/// Watches how much of the machine other programs take: a figure measured beside them is worth less.
pub struct Bystander {
    begun: Instant,
    busy: Duration,
    own: Duration,
}

impl Bystander {
    /// Starts to watch.
    pub fn start() -> Self {
        Self { begun: Instant::now(), busy: busy_cpu(), own: own_cpu() }
    }

    /// CPU time that neither this process nor its descendants took since the start, in percent of
    /// all cores.
    pub fn foreign_percent(&self) -> f64 {
        let cores = std::thread::available_parallelism().map_or(1, std::num::NonZero::get);
        100.0 * self.foreign_cpu().as_secs_f64() / (self.begun.elapsed().as_secs_f64() * cores as f64)
    }

    fn foreign_cpu(&self) -> Duration {
        let own = own_cpu().saturating_sub(self.own);
        busy_cpu().saturating_sub(self.busy).saturating_sub(own)
    }
}

fn own_cpu() -> Duration {
    tree_usage(std::process::id()).cpu
}

fn busy_cpu() -> Duration {
    let text = std::fs::read_to_string("/proc/stat").unwrap_or_default();
    of_ticks(busy_ticks(&text).unwrap_or(0))
}

/// All of the first line of `/proc/stat` but idle and waiting for the disk (columns 4 and 5).
fn busy_ticks(stat: &str) -> Option<u64> {
    let columns = stat.lines().next()?.strip_prefix("cpu ")?.split_whitespace().take(8).enumerate();
    columns.filter(|(i, _)| !matches!(i, 3 | 4)).map(|(_, ticks)| ticks.parse::<u64>().ok()).sum()
}

fn of_ticks(ticks: u64) -> Duration {
    Duration::from_secs_f64(ticks as f64 / rustix::param::clock_ticks_per_second() as f64)
}

struct Stat {
    parent: u32,
    ticks: u64,
    rss_pages: u64,
}

/// What process `root` and its descendants have used so far, as far as they can be read.
pub fn tree_usage(root: u32) -> Usage {
    let all = all_stats();
    let mut usage = Usage::default();
    let page_mb = rustix::param::page_size() as f64 / (1024.0 * 1024.0);
    for (&pid, stat) in &all {
        if descends_from(&all, pid, root) {
            usage.cpu += of_ticks(stat.ticks);
            usage.rss_mb += stat.rss_pages as f64 * page_mb;
        }
    }
    usage
}

fn all_stats() -> HashMap<u32, Stat> {
    let Ok(entries) = std::fs::read_dir("/proc") else { return HashMap::new() };
    entries
        .flatten()
        .filter_map(|entry| {
            let pid = entry.file_name().to_str()?.parse().ok()?;
            Some((pid, parse_stat(&std::fs::read_to_string(entry.path().join("stat")).ok()?)?))
        })
        .collect()
}

/// Reads the fields of `/proc/PID/stat` (proc(5)) that follow the parenthesised name.
fn parse_stat(text: &str) -> Option<Stat> {
    let fields: Vec<&str> = text.rsplit_once(')')?.1.split_whitespace().collect();
    let field = |number: usize| fields.get(number - 3)?.parse::<u64>().ok();
    let ticks = (14..=17).map(field).sum::<Option<u64>>()?;
    Some(Stat { parent: u32::try_from(field(4)?).ok()?, ticks, rss_pages: field(24)? })
}

fn descends_from(all: &HashMap<u32, Stat>, mut pid: u32, root: u32) -> bool {
    while pid != root {
        match all.get(&pid) {
            Some(stat) if stat.parent != 0 => pid = stat.parent,
            _ => return false,
        }
    }
    true
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn usage_counts_this_process() {
        assert!(tree_usage(std::process::id()).rss_mb > 0.5);
    }

    #[test]
    fn a_process_name_with_spaces_and_brackets_is_parsed() {
        let text = "7 (a) b (c) S 1 7 7 0 -1 0 0 0 0 0 10 20 30 40 20 0 1 0 5 1000 256 9";
        let stat = parse_stat(text).unwrap();
        assert_eq!((stat.parent, stat.ticks, stat.rss_pages), (1, 100, 256));
    }

    #[test]
    fn idle_and_disk_wait_are_not_busy() {
        assert_eq!(busy_ticks("cpu  1 2 4 1000 2000 8 16 32 64 128\ncpu0 1"), Some(63));
        assert_eq!(busy_ticks("intr 5"), None);
    }

    #[test]
    fn own_work_is_not_foreign() {
        let watch = Bystander::start();
        let mut burnt = 0_u64;
        while own_cpu() == watch.own && watch.begun.elapsed() < Duration::from_secs(20) {
            burnt = std::hint::black_box(burnt.wrapping_add(1));
        }
        let own = own_cpu().saturating_sub(watch.own).as_secs_f64();
        let foreign = watch.foreign_cpu().as_secs_f64();
        let busy = busy_cpu().saturating_sub(watch.busy).as_secs_f64();
        // The readings follow each other and only grow; a tick is 10 ms.
        assert!(own > 0.0 && own + foreign <= busy + 0.05, "{own} + {foreign} of {busy}");
    }
}
