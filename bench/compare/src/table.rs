//! The summary as a person likes to read it.

use std::fmt::Write as _;

use crate::machine::Limits;
use crate::rounds::{Results, Run};
use crate::summary::{Line, Spread, spread};

const HEAD: [&str; 12] = [
    "server",
    "per second",
    "(min .. max)",
    "ack p50 ms",
    "ack p99 ms",
    "server us/msg",
    "RSS MiB",
    "flush/s",
    "others' CPU %",
    "rate ratio",
    "p50 ratio",
    "p99 ratio",
];
const ABSENT: &str = "-";
/// The ratios' meaning, for tables that have any.
const LEGEND: &str = "
ratio: Switchboard's figure divided by the peer's within each round, then the median of the rounds.
Switchboard is the faster one where the rate ratio is above 1 and the p50 and p99 ratios are below 1.
";

/// The machine's limits, one table per load, and what failed.
pub fn render(results: &Results, lines: &[Line]) -> String {
    let mut text = machine(&results.machine);
    for group in lines.chunk_by(|a, b| a.load == b.load) {
        let _ = writeln!(text, "\n{}", title(group));
        text += &columns(&rows(group));
        text += &notes(group);
    }
    if lines.iter().any(|line| line.rate_ratio.is_some()) {
        text += LEGEND;
    }
    for run in &results.runs {
        text += &failure(run);
    }
    if results.stopped {
        text += "STOPPED by a signal: some rounds or loads are missing.\n";
    }
    text
}

fn machine(rounds: &[Limits]) -> String {
    let over = |figure: fn(&Limits) -> f64| spread(rounds.iter().map(figure)).map_or(0.0, |s| s.median);
    if rounds.is_empty() {
        return String::new();
    }
    format!(
        "machine: write 4 KiB + fdatasync {}/s, p50 {:.3} ms, p99 {:.3} ms; loopback round trip p50 {:.1} us\n",
        number(over(|l| l.fdatasync_per_s), 0),
        over(|l| l.fdatasync_p50_ms),
        over(|l| l.fdatasync_p99_ms),
        over(|l| l.loopback_rtt_us),
    )
}

fn title(group: &[Line]) -> String {
    let line = &group[0];
    let what = if line.deliver_p50_ms.is_some() { "durable deliveries" } else { "durable acknowledgements" };
    format!("{} ({what})", line.load)
}

fn rows(group: &[Line]) -> Vec<Vec<String>> {
    let mut rows = vec![HEAD.map(str::to_owned).to_vec()];
    for line in group {
        let range = line
            .rate_per_s
            .map_or(String::new(), |s| format!("({} .. {})", number(s.min, 0), number(s.max, 0)));
        rows.push(vec![
            line.server.to_owned(),
            show(line.rate_per_s, 0),
            range,
            show(line.ack_p50_ms, 3),
            show(line.ack_p99_ms, 3),
            show(line.server_cpu_us_per_msg, 1),
            show(line.server_rss_mb, 0),
            show(line.flush_per_s, 0),
            show(line.foreign_cpu_percent, 0),
            show(line.rate_ratio, 2),
            show(line.ack_p50_ratio, 2),
            show(line.ack_p99_ratio, 2),
        ]);
    }
    rows
}

/// Delivery latencies and the count of what went wrong, for loads with receivers.
fn notes(group: &[Line]) -> String {
    let mut text = String::new();
    for line in group.iter().filter(|line| line.deliver_p50_ms.is_some()) {
        let _ = writeln!(
            text,
            "  {}: published {}/s, delivered after p50 {} ms, p99 {} ms, lost or repeated {}",
            line.server,
            show(line.published_per_s, 0),
            show(line.deliver_p50_ms, 1),
            show(line.deliver_p99_ms, 1),
            line.lost_or_repeated.map_or_else(|| "-".to_owned(), |n| n.to_string()),
        );
    }
    text
}

fn show(figure: Option<Spread>, decimals: usize) -> String {
    figure.map_or_else(|| ABSENT.to_owned(), |s| number(s.median, decimals))
}

/// With a space between thousands.
fn number(value: f64, decimals: usize) -> String {
    let text = format!("{value:.decimals$}");
    let (whole, fraction) = text.split_at(text.find('.').unwrap_or(text.len()));
    let digits = whole.chars().enumerate();
    let spaced = digits.flat_map(|(i, digit)| {
        let space = (i > 0 && (whole.len() - i).is_multiple_of(3)).then_some(' ');
        space.into_iter().chain([digit])
    });
    spaced.chain(fraction.chars()).collect()
}

fn failure(run: &Run) -> String {
    let Some(error) = &run.error else { return String::new() };
    format!("FAILED in round {}: {}, {}: {error}\n", run.round, run.server, run.load)
}

/// Columns as wide as their widest cell, the first flush left, the others flush right; columns
/// without any figure are left out.
fn columns(rows: &[Vec<String>]) -> String {
    let width = |column: usize| rows.iter().map(|row| row[column].len()).max().unwrap_or(0);
    let filled = |column: &usize| rows.iter().skip(1).any(|row| row[*column] != ABSENT);
    let shown: Vec<(usize, usize)> = (0..HEAD.len()).filter(filled).map(|i| (i, width(i))).collect();
    let mut text = String::new();
    for row in rows {
        let cells = shown.iter().map(|&(i, width)| match i {
            0 => format!("{:<width$}", row[i]),
            _ => format!("{:>width$}", row[i]),
        });
        let _ = writeln!(text, "  {}", cells.collect::<Vec<_>>().join("  ").trim_end());
    }
    text
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::outcome::Outcome;
    use crate::summary::summarize;

    #[test]
    fn the_table_shows_rate_ratio_and_failure() {
        let outcome = |published_per_s| Some(Outcome { published_per_s, ..Outcome::default() });
        let run = |server, outcome, error| Run {
            round: 1,
            server,
            load: "one in flight",
            foreign_cpu_percent: 0.0,
            outcome,
            error,
        };
        let runs = vec![
            run("switchboard", outcome(3000.0), None),
            run("nats", outcome(2000.0), None),
            run("redis", None, Some("not installed".to_owned())),
        ];
        let results = Results { runs, ..Results::default() };
        let text = render(&results, &summarize(&results));
        let nats = text.lines().find(|line| line.trim_start().starts_with("nats")).unwrap();
        assert!(nats.contains("2 000") && nats.contains("1.50"), "{nats}");
        assert!(!text.contains("RSS"), "a column without figures is shown: {text}");
        assert!(text.contains("FAILED in round 1: redis, one in flight: not installed"), "{text}");
    }

    #[test]
    fn thousands_are_set_apart() {
        assert_eq!(number(1_234_567.891, 1), "1 234 567.9");
        assert_eq!(number(999.0, 0), "999");
        assert_eq!(number(0.25, 2), "0.25");
    }
}
