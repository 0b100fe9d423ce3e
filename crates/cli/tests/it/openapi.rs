//! The committed description of the API is the one that the code generates. `UPDATE=1` rewrites it.

use std::path::Path;
use switchboard_server::{Doors, openapi};
use switchboard_testkit::TestHub;

#[tokio::test]
async fn the_committed_description_is_the_generated_one() {
    let hub = TestHub::start().await;
    let token = hub.token("a").await;
    let served = hub.http(&token).get("/openapi.json").await.text;
    let generated = openapi::text(&Doors::new(hub.hub.clone(), "sqlite"));
    assert!(served == generated);
    let path = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../docs/openapi.json");
    if std::env::var_os("UPDATE").is_some() {
        std::fs::create_dir_all(path.parent().unwrap()).unwrap();
        std::fs::write(&path, &generated).unwrap();
    }
    let committed = std::fs::read_to_string(&path).unwrap_or_default();
    assert!(committed == generated, "run the tests with UPDATE=1 and commit docs/openapi.json");
    hub.stop().await;
}
