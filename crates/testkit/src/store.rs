//! Which store tests run on: the embedded one, or one private PostgreSQL server with a schema for each directory.

use std::hash::{DefaultHasher, Hash as _, Hasher as _};
use std::path::Path;
use std::sync::LazyLock;
use switchboard_store::conformance::cluster::Cluster;

/// Names the backend: `postgres`, or anything else for the embedded one.
pub const VARIABLE: &str = "SWITCHBOARD_TEST_STORE";

static CLUSTER: LazyLock<Cluster> = LazyLock::new(Cluster::start);

/// Where the store of a data directory is; `None` for the directory itself.
#[must_use]
pub fn url(dir: &Path) -> Option<String> {
    if backend() != "postgres" {
        return None;
    }
    let mut hasher = DefaultHasher::new();
    dir.hash(&mut hasher);
    Some(CLUSTER.url(&format!("d{:x}", hasher.finish())))
}

/// What `status` calls the backend that tests run on.
#[must_use]
pub fn backend() -> &'static str {
    if std::env::var(VARIABLE).is_ok_and(|name| name == "postgres") { "postgres" } else { "sqlite" }
}

/// Names of the variables that a program on `dir` needs, with their values.
pub fn variables(dir: &Path) -> impl Iterator<Item = (&'static str, String)> {
    url(dir).into_iter().map(|url| ("SWITCHBOARD_STORE_URL", url))
}
