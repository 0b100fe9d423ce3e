//! `switchboard device`: engines that want to enroll and wait for a person's word.

use crate::api::{Api, path};
use crate::args::Device;
use crate::failure::Failure;
use crate::terminal::{self, Output};
use switchboard_protocol::admin;

const PATH: &str = "/admin/v1/devices";

/// Lists devices, or decides on one.
pub async fn run(api: &Api, output: Output, command: &Device) -> Result<(), Failure> {
    match command {
        Device::List => {
            let devices: Vec<admin::Device> = api.get(PATH).await?;
            output.show(&devices, |devices| list(devices));
        }
        Device::Approve { code } => {
            api.act(&path(PATH, &[code, "approve"])).await?;
            output.done(&format!("{code} is approved; the device enrolls with its next poll."));
        }
        Device::Deny { code } => {
            api.act(&path(PATH, &[code, "deny"])).await?;
            output.done(&format!("{code} is turned away."));
        }
    }
    Ok(())
}

fn list(devices: &[admin::Device]) -> String {
    if devices.is_empty() {
        return "No device waits.\n".into();
    }
    let row = |device: &admin::Device| {
        vec![
            as_shown(&device.user_code),
            device.label.clone().unwrap_or_default(),
            device.expires_at.to_string(),
        ]
    };
    terminal::table(&["CODE", "DEVICE", "CODE ENDS"], &devices.iter().map(row).collect::<Vec<_>>())
}

/// A code as the device shows it: two groups of four.
fn as_shown(code: &str) -> String {
    code.split_at_checked(4).map_or_else(|| code.to_owned(), |(first, rest)| format!("{first}-{rest}"))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_code_is_listed_as_the_device_shows_it() {
        let expires_at = switchboard_protocol::UtcTime::from_unix(0);
        let device = admin::Device { user_code: "WDJBMJHT".into(), label: None, expires_at };
        assert!(list(&[device]).contains("WDJB-MJHT"));
    }
}
