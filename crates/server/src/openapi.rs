//! The API's description, generated from the handlers: `/openapi.json`, committed as `docs/openapi.json`, compared by a test.

use crate::http::json_bytes;
use crate::{Doors, admin, bus, enroll, health, metrics, people};
use axum::response::Response;
use axum::routing::{any, get};
use utoipa::OpenApi;
use utoipa::openapi::security::{HttpAuthScheme, HttpBuilder, SecurityScheme};
use utoipa_axum::router::OpenApiRouter;
use utoipa_axum::routes;

#[derive(OpenApi)]
#[openapi(
    info(title = "Switchboard", description = "One hub through which AI agents talk to each other. Bodies named `…/v1` follow the published contract; every refusal is `{\"error\":{code,message,field?,reason?,sb}}`, and `sb` has a page under docs/errors.", license(name = "Apache-2.0")),
    paths(bus::read::channel_events),
    modifiers(&Bearer),
    tags((name = "bus", description = "Agent to agent"), (name = "people", description = "Agents to people"), (name = "directory", description = "Who is there"),
        (name = "enrollment", description = "Credentials"), (name = "operation", description = "Health and figures"),
        (name = "admin", description = "Managing the hub; needs the admin token"))
)]
struct Api;

struct Bearer;

impl utoipa::Modify for Bearer {
    fn modify(&self, api: &mut utoipa::openapi::OpenApi) {
        let scheme = SecurityScheme::Http(HttpBuilder::new().scheme(HttpAuthScheme::Bearer).build());
        api.components.get_or_insert_default().add_security_scheme("bearer", scheme);
    }
}

/// Every route with its description.
pub fn router(doors: &Doors) -> OpenApiRouter {
    let bus = OpenApiRouter::with_openapi(Api::openapi())
        .routes(routes!(bus::socket::open))
        .routes(routes!(bus::read::poll_bus))
        .routes(routes!(bus::read::messages, bus::send::message))
        .routes(routes!(bus::read::one_message))
        .routes(routes!(bus::read::stream_list))
        .routes(routes!(bus::read::search))
        .routes(routes!(bus::read::agent_list))
        .routes(routes!(bus::read::handle))
        .routes(routes!(bus::read::whoami))
        .route("/v1/bus/channels/{*rest}", get(bus::read::channel_events));
    let enrollment = OpenApiRouter::new()
        .routes(routes!(enroll::device_code))
        .routes(routes!(enroll::device_token))
        .routes(routes!(enroll::access_token))
        .routes(routes!(enroll::renew_lease))
        .routes(routes!(enroll::leave))
        .routes(routes!(enroll::keys))
        .routes(routes!(enroll::org_salt))
        .routes(routes!(enroll::resolve_vault))
        .routes(routes!(enroll::device_page))
        .route("/v1/root-cert", any(enroll::not_offered))
        .route("/v1/instances/{instance_id}/card", any(enroll::not_offered));
    let people = OpenApiRouter::new()
        .routes(routes!(people::send))
        .routes(routes!(people::conversation))
        .routes(routes!(people::withdraw))
        .routes(routes!(people::channels))
        .routes(routes!(people::push));
    let operation = OpenApiRouter::new()
        .routes(routes!(health::healthz))
        .routes(routes!(health::readyz))
        .routes(routes!(metrics::metrics))
        .route("/openapi.json", get(document));
    bus.merge(people).merge(enrollment).merge(operation).merge(admin::routes()).with_state(doors.clone())
}

/// The description as JSON, as it is committed.
pub fn text(doors: &Doors) -> String {
    let (_, api) = router(doors).split_for_parts();
    api.to_pretty_json().unwrap_or_default()
}

async fn document(axum::extract::State(doors): axum::extract::State<Doors>) -> Response {
    json_bytes(text(&doors).into_bytes())
}
