//! `switchboard console`: the way in for a browser.

use crate::api::Api;
use crate::failure::Failure;
use crate::terminal::Output;
use switchboard_protocol::admin::ConsoleLink;

/// Prints a link.
pub async fn run(api: &Api, output: Output) -> Result<(), Failure> {
    let link: ConsoleLink = api.post("/admin/v1/console/links", &()).await?;
    output.show(&link, |link| format!("{}\n\nIt works once, until {}.\n", link.url, link.expires_at));
    Ok(())
}
