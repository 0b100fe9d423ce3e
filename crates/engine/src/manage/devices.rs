//! Devices that wait for a person's word.

use crate::hub::Hub;
use crate::once::Request;
use crate::refusal;
use switchboard_core::port::store::DeviceRow;
use switchboard_core::principal::Principal;
use switchboard_core::write::{DeviceDecision, Write};
use switchboard_protocol::Detail;

/// Decides on the device with this user code, in the name of the deciding person.
pub async fn decide(
    hub: &Hub,
    request: &Request,
    who: &Principal,
    user_code: &str,
    decision: DeviceDecision,
) -> Result<(), Detail> {
    let letters: String =
        user_code.chars().filter(char::is_ascii_alphabetic).map(|c| c.to_ascii_uppercase()).collect();
    let write = Write::DeviceDecide { user_code: letters, decision, person: who.owner };
    hub.once_silent(request, write).await.map_err(|detail| match detail.code {
        switchboard_protocol::Code::NotFound => refusal::not_found(
            "user_code",
            "No device waits with this code; it may be over, start again on the device.",
        ),
        _ => detail,
    })
}

/// Those that wait.
pub async fn list(hub: &Hub) -> Result<Vec<DeviceRow>, Detail> {
    hub.store().devices(hub.clock().wall_ms()).await.map_err(|error| refusal::store(&error))
}
