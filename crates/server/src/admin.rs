//! Managing the hub over HTTP: `/admin/v1`, for the `switchboard` commands and the console. Every route needs the admin token.

mod credentials;
pub(crate) mod log;
mod networks;
mod outbound;
mod overview;
mod people;
mod policy;

use crate::Doors;
use utoipa_axum::router::OpenApiRouter;
use utoipa_axum::routes;

/// The routes.
pub fn routes() -> OpenApiRouter<Doors> {
    OpenApiRouter::new()
        .routes(routes!(overview::status))
        .routes(routes!(overview::ledger))
        .routes(routes!(overview::public_ledger))
        .routes(routes!(overview::keys))
        .routes(routes!(overview::backup))
        .routes(routes!(credentials::token_list, credentials::token_create))
        .routes(routes!(credentials::token_revoke))
        .routes(routes!(credentials::console_link))
        .routes(routes!(credentials::device_list))
        .routes(routes!(credentials::device_approve))
        .routes(routes!(credentials::device_deny))
        .routes(routes!(outbound::send_list))
        .routes(routes!(outbound::send_show))
        .routes(routes!(outbound::send_retry))
        .routes(routes!(outbound::send_discard))
        .routes(routes!(outbound::approval_list))
        .routes(routes!(outbound::approval_decide))
        .routes(routes!(outbound::topic_list))
        .routes(routes!(outbound::topic_answer))
        .routes(routes!(outbound::pair_start))
        .routes(routes!(outbound::consent_list, outbound::consent_set))
        .routes(routes!(people::list))
        .routes(routes!(people::set_quiet))
        .routes(routes!(networks::vault_list, networks::vault_create))
        .routes(routes!(networks::swarm_list, networks::swarm_create))
        .routes(routes!(networks::swarm_join))
        .routes(routes!(networks::swarm_close))
        .routes(routes!(networks::task_list))
        .routes(routes!(networks::task_approve))
        .routes(routes!(networks::task_decline))
        .routes(routes!(policy::policy_show))
        .routes(routes!(policy::policy_reload))
        .routes(routes!(policy::policy_explain))
        .routes(routes!(log::log_page))
        .routes(routes!(log::log_verify))
        .routes(routes!(log::log_audit))
}
