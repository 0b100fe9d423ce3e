//! `switchboard ledger`: where every accepted message is.

use crate::api::Api;
use crate::failure::Failure;
use crate::terminal::{self, Output};
use switchboard_protocol::admin::{Ledger, Ledgers};

/// Its columns.
pub const HEADING: [&str; 9] =
    ["LEDGER", "ACCEPTED", "DELIVERED", "ANSWERED", "EXPIRED", "REFUSED", "DEAD", "UNKNOWN", "PENDING"];

/// Shows the ledger.
pub async fn run(api: &Api, output: Output) -> Result<(), Failure> {
    let ledgers: Ledgers = api.get("/admin/v1/ledger").await?;
    output.show(&ledgers, text);
    Ok(())
}

/// The ledgers as a table.
pub fn text(ledgers: &Ledgers) -> String {
    terminal::table(&HEADING, &[row("bus", &ledgers.bus), row("outbound", &ledgers.outbound)])
}

/// A row of it.
pub fn row(plane: &str, ledger: &Ledger) -> Vec<String> {
    let Ledger { accepted, delivered, answered, expired, refused, dead, unknown, pending } = *ledger;
    let counts = [accepted, delivered, answered, expired, refused, dead, unknown, pending];
    std::iter::once(plane.to_owned()).chain(counts.iter().map(u64::to_string)).collect()
}
