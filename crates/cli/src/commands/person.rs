//! `person`: the people whom agents reach.

use crate::api::Api;
use crate::args::Person;
use crate::failure::Failure;
use crate::terminal::{Output, line};
use serde_json::Value;
use switchboard_protocol::outbound::{People, QuietHours, SetConsent, SetQuiet};

/// Runs it.
pub async fn run(api: &Api, output: Output, command: &Person) -> Result<(), Failure> {
    match command {
        Person::List => {
            let found: People = api.get("/admin/v1/people").await?;
            output.show(&found, people);
        }
        Person::Link { person, channel, to } => {
            let body = SetConsent {
                channel: channel.clone(),
                kind: None,
                to: to.clone(),
                allow: true,
                lift_stop: false,
                person: Some(person.clone()),
            };
            api.post::<Value>(super::people::CONSENTS, &body).await?;
            output.done(&format!("{} on {channel} is {}'s.", line(to), line(person)));
        }
        Person::Quiet { person, from, until, zone, .. } => {
            let quiet = match (zone, from, until) {
                (Some(zone), Some(from), Some(until)) => {
                    Some(QuietHours { zone: zone.clone(), from: from.clone(), until: until.clone() })
                }
                _ => None,
            };
            let path = crate::api::path("/admin/v1/people", &[person, "quiet"]);
            let set: SetQuiet = api.post(&path, &SetQuiet { quiet }).await?;
            output.show(&set, |set| match &set.quiet {
                Some(hours) => format!("{} has quiet hours: {}.\n", line(person), shown(hours)),
                None => format!("{} has no quiet hours.\n", line(person)),
            });
        }
    }
    Ok(())
}

fn shown(hours: &QuietHours) -> String {
    format!("{} to {}, {}", hours.from, hours.until, hours.zone)
}

fn people(found: &People) -> String {
    let lines = found.people.iter().flat_map(|person| {
        let quiet = person.quiet.as_ref().map(|hours| format!("  (quiet {})", shown(hours)));
        let addresses = person.addresses.iter();
        let addresses = addresses
            .map(|address| format!("  {}: {} ({})\n", address.channel, line(&address.to), address.state));
        let name = format!("{}{}\n", line(&person.name), quiet.unwrap_or_default());
        std::iter::once(name).chain(addresses).collect::<Vec<_>>()
    });
    lines.collect()
}
