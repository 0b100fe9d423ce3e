//! `person`.

use clap::Subcommand;

/// `person`.
#[derive(Debug, Subcommand)]
pub enum Person {
    /// The people of the organization: their addresses, and when they want quiet.
    List,
    /// Say that an address is a person's: it may be written to, shares their floor, and falls silent with their STOP.
    Link {
        /// Whose, by name.
        person: String,
        /// The channel.
        #[arg(long)]
        channel: String,
        /// The address.
        #[arg(long, value_name = "HANDLE", allow_hyphen_values = true)]
        to: String,
    },
    /// Hold back what is not urgent for a stretch of each day.
    Quiet {
        /// Whose, by name.
        person: String,
        /// When it begins, such as 22:00.
        #[arg(value_name = "FROM", required_unless_present = "off", requires = "until")]
        from: Option<String>,
        /// When it ends, such as 07:00.
        #[arg(value_name = "UNTIL", requires = "zone")]
        until: Option<String>,
        /// The clock on their wall, such as Europe/Berlin.
        #[arg(long, value_name = "ZONE")]
        zone: Option<String>,
        /// No quiet hours any more.
        #[arg(long, conflicts_with_all = ["from", "until", "zone"])]
        off: bool,
    },
}
