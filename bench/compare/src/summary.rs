//! Medians over the rounds, and ratios taken within each round before their median.

use serde::Serialize;

use crate::outcome::Outcome;
use crate::rounds::{Results, Run, SWITCHBOARD};

/// A figure over all rounds.
#[derive(Debug, Clone, Copy, PartialEq, Serialize)]
pub struct Spread {
    /// Median.
    pub median: f64,
    /// Smallest.
    pub min: f64,
    /// Largest.
    pub max: f64,
}

/// One server's line for one load. Ratios are Switchboard's figure divided by this server's.
#[derive(Debug, Serialize)]
pub struct Line {
    /// Name of the load.
    pub load: &'static str,
    /// Name of the server.
    pub server: &'static str,
    /// Rounds that succeeded.
    pub rounds: usize,
    /// Deliveries per second where the load has receivers, else acknowledged messages per second.
    pub rate_per_s: Option<Spread>,
    /// Acknowledged messages per second.
    pub published_per_s: Option<Spread>,
    /// Acknowledgement latency, median of the rounds' medians, milliseconds.
    pub ack_p50_ms: Option<Spread>,
    /// Median of the rounds' 99th percentiles.
    pub ack_p99_ms: Option<Spread>,
    /// Delivery latency, median of the rounds' medians.
    pub deliver_p50_ms: Option<Spread>,
    /// Median of the rounds' 99th percentiles.
    pub deliver_p99_ms: Option<Spread>,
    /// CPU time of the server per acknowledged message.
    pub server_cpu_us_per_msg: Option<Spread>,
    /// Resident memory of the server.
    pub server_rss_mb: Option<Spread>,
    /// Cache flushes of the device, or the hub's own syncs, per second.
    pub flush_per_s: Option<Spread>,
    /// CPU time that other programs took meanwhile, percent of all cores.
    pub foreign_cpu_percent: Option<Spread>,
    /// Deliveries lost plus repeated, all rounds together.
    pub lost_or_repeated: Option<u64>,
    /// Ratio of `rate_per_s`; above 1 Switchboard is faster.
    pub rate_ratio: Option<Spread>,
    /// Ratio of the median acknowledgement latency; below 1 Switchboard is faster.
    pub ack_p50_ratio: Option<Spread>,
    /// Ratio of the 99th percentile; below 1 Switchboard is faster.
    pub ack_p99_ratio: Option<Spread>,
}

/// One line per load and server, loads and servers in the order in which they first ran.
pub fn summarize(results: &Results) -> Vec<Line> {
    let mut keys: Vec<(&'static str, &'static str)> = Vec::new();
    for run in &results.runs {
        if !keys.contains(&(run.load, run.server)) {
            keys.push((run.load, run.server));
        }
    }
    let mut loads: Vec<&str> = Vec::new();
    for (load, _) in &keys {
        if !loads.contains(load) {
            loads.push(load);
        }
    }
    keys.sort_by_key(|(load, _)| loads.iter().position(|known| known == load));
    keys.into_iter().map(|(load, server)| line(&results.runs, load, server)).collect()
}

/// The median, smallest and largest of `values`; `None` when there are none.
pub fn spread(values: impl IntoIterator<Item = f64>) -> Option<Spread> {
    let mut values: Vec<f64> = values.into_iter().collect();
    values.sort_by(f64::total_cmp);
    let (&min, &max) = (values.first()?, values.last()?);
    let middle = values.len() / 2;
    let median = if values.len().is_multiple_of(2) {
        f64::midpoint(values[middle - 1], values[middle])
    } else {
        values[middle]
    };
    Some(Spread { median, min, max })
}

fn line(runs: &[Run], load: &'static str, server: &'static str) -> Line {
    let own: Vec<&Outcome> = succeeded(runs, load, server).map(|(_, outcome)| outcome).collect();
    let over = |figure: &dyn Fn(&Outcome) -> Option<f64>| spread(own.iter().filter_map(|o| figure(o)));
    Line {
        load,
        server,
        rounds: own.len(),
        rate_per_s: over(&|o| Some(rate(o))),
        published_per_s: over(&|o| Some(o.published_per_s)),
        ack_p50_ms: over(&|o| Some(o.ack_ms.p50)),
        ack_p99_ms: over(&|o| Some(o.ack_ms.p99)),
        deliver_p50_ms: over(&|o| Some(o.deliver_ms?.p50)),
        deliver_p99_ms: over(&|o| Some(o.deliver_ms?.p99)),
        server_cpu_us_per_msg: over(&|o| o.server_cpu_us_per_msg),
        server_rss_mb: over(&|o| o.server_rss_mb),
        flush_per_s: over(&|o| o.flush_per_s),
        foreign_cpu_percent: spread(succeeded(runs, load, server).map(|(run, _)| run.foreign_cpu_percent)),
        lost_or_repeated: own.iter().map(|o| Some(o.lost? + o.duplicated?)).sum(),
        rate_ratio: ratio(runs, load, server, rate),
        ack_p50_ratio: ratio(runs, load, server, |o| o.ack_ms.p50),
        ack_p99_ratio: ratio(runs, load, server, |o| o.ack_ms.p99),
    }
}

fn rate(outcome: &Outcome) -> f64 {
    outcome.delivered_per_s.unwrap_or(outcome.published_per_s)
}

/// Switchboard's figure over `server`'s in each round that both finished.
fn ratio(runs: &[Run], load: &str, server: &str, figure: fn(&Outcome) -> f64) -> Option<Spread> {
    if server == SWITCHBOARD {
        return None;
    }
    let ratios = succeeded(runs, load, server).filter_map(|(run, peer)| {
        let (_, hub) = succeeded(runs, load, SWITCHBOARD).find(|(own, _)| own.round == run.round)?;
        (figure(peer) > 0.0).then(|| figure(hub) / figure(peer))
    });
    spread(ratios)
}

fn succeeded<'a>(runs: &'a [Run], load: &str, server: &str) -> impl Iterator<Item = (&'a Run, &'a Outcome)> {
    runs.iter()
        .filter(move |run| run.load == load && run.server == server)
        .filter_map(|run| Some((run, run.outcome.as_ref()?)))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn run(round: u32, server: &'static str, published_per_s: f64) -> Run {
        let outcome = Outcome { load: "l", published_per_s, ..Outcome::default() };
        Run { round, server, load: "l", foreign_cpu_percent: 0.0, outcome: Some(outcome), error: None }
    }

    #[test]
    fn the_ratio_is_taken_within_each_round() {
        let mut results = Results::default();
        // The second round is ten times slower for both: the ratio does not notice.
        for (round, hub, peer) in [(1, 400.0, 200.0), (2, 40.0, 20.0), (3, 900.0, 300.0)] {
            results.runs.push(run(round, SWITCHBOARD, hub));
            results.runs.push(run(round, "peer", peer));
        }
        let lines = summarize(&results);
        assert_eq!(lines[1].rate_ratio, Some(Spread { median: 2.0, min: 2.0, max: 3.0 }));
        assert_eq!(lines[0].rate_ratio, None);
        assert_eq!(lines[0].published_per_s.map(|rate| rate.median), Some(400.0));
    }

    #[test]
    fn a_round_that_one_side_failed_has_no_ratio() {
        let failed = Run { outcome: None, error: Some("no".into()), ..run(1, SWITCHBOARD, 0.0) };
        let results = Results { runs: vec![failed, run(1, "peer", 10.0)], ..Results::default() };
        let lines = summarize(&results);
        assert_eq!((lines[0].rounds, lines[1].rounds), (0, 1));
        assert_eq!(lines[1].rate_ratio, None);
    }

    #[test]
    fn the_median_of_an_even_number_lies_between() {
        assert_eq!(spread([4.0, 1.0, 2.0, 3.0]), Some(Spread { median: 2.5, min: 1.0, max: 4.0 }));
        assert_eq!(spread([]), None);
    }
}
