//! MCP.
use std::sync::Arc;
use switchboard_engine::Hub;
/// Options.
#[derive(Debug, Default, Clone)]
pub struct Options {}
/// Router.
pub fn router(_hub: Arc<Hub>, _options: Options) -> axum::Router {
    axum::Router::new()
}
