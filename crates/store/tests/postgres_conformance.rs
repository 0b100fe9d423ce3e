//! The store for several nodes keeps the port's promises.

use futures_util::FutureExt as _;
use futures_util::future::BoxFuture;
use std::sync::{Arc, LazyLock};
use switchboard_core::port::store::Store;
use switchboard_store::conformance::Backend;
use switchboard_store::conformance::cluster::Cluster;
use switchboard_store::postgres::{Address, Options, PostgresStore};

static CLUSTER: LazyLock<Cluster> = LazyLock::new(Cluster::start);

struct Schema {
    url: String,
}

impl Schema {
    fn new() -> Self {
        Self { url: CLUSTER.fresh_url() }
    }

    async fn open(&self) -> Arc<dyn Store> {
        let address = Address::parse(&self.url).expect("a good URL");
        let options = Options { readers: 3, ..Options::default() };
        Arc::new(PostgresStore::connect(address, options).await.expect("the store opens"))
    }
}

impl Backend for Schema {
    fn fresh(&self) -> BoxFuture<'_, Arc<dyn Store>> {
        self.open().boxed()
    }

    fn reopen(&self, store: Arc<dyn Store>) -> BoxFuture<'_, Arc<dyn Store>> {
        async {
            store.close().await.expect("it closes");
            drop(store);
            self.open().await
        }
        .boxed()
    }

    fn second(&self) -> BoxFuture<'_, Option<Arc<dyn Store>>> {
        async { Some(self.open().await) }.boxed()
    }
}

switchboard_store::store_conformance!(crate::Schema::new());
