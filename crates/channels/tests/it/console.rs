//! The console in the conformance suite. It has no network: what it is given has arrived.

use futures_util::future::BoxFuture;
use std::sync::Arc;
use switchboard_channels::conformance::{self, Accepted, Behaviour, Fixture};
use switchboard_channels::console::Console;
use switchboard_channels::fake::FakeNetwork;
use switchboard_core::outbound::gate::Cleared;
use switchboard_core::port::channel::{AddressKind, Capabilities, Channel, Draft, Part, Performed};

/// The console, with everything that it performs written down.
struct Recorded {
    console: Console,
    inbox: Arc<FakeNetwork>,
}

impl Channel for Recorded {
    fn name(&self) -> &str {
        self.console.name()
    }

    fn kind(&self) -> &'static str {
        self.console.kind()
    }

    fn capabilities(&self) -> &Capabilities {
        self.console.capabilities()
    }

    fn normalise(&self, kind: AddressKind, to: &str) -> Result<String, String> {
        self.console.normalise(kind, to)
    }

    fn prepare(&self, draft: &Draft<'_>) -> Result<Vec<Part>, String> {
        self.console.prepare(draft)
    }

    fn perform(&self, attempt: Cleared) -> BoxFuture<'_, Performed> {
        Box::pin(async move {
            self.inbox.perform(crate::cleared(attempt.attempt().clone())).await;
            self.console.perform(attempt).await
        })
    }
}

struct ConsoleFixture(Arc<Recorded>);

impl Fixture for ConsoleFixture {
    fn channel(&self) -> Arc<dyn Channel> {
        self.0.clone()
    }

    fn script(&self, behaviour: Behaviour) -> bool {
        behaviour == Behaviour::Accept
    }

    fn contacts(&self) -> usize {
        self.0.inbox.attempts().len()
    }

    fn accepted(&self) -> Vec<Accepted> {
        let accepted = self.0.inbox.accepted().into_iter().map(|attempt| Accepted {
            bytes: format!("{:?}", attempt.part).into_bytes(),
            message_id: Some(attempt.delivery.clone()),
            delivery: attempt.delivery,
            text: attempt.part.text,
        });
        accepted.collect()
    }

    fn until_accepted(&self, count: usize) -> BoxFuture<'_, ()> {
        Box::pin(self.0.inbox.until_accepted(count))
    }

    fn address(&self, kind: AddressKind) -> Option<String> {
        (kind == AddressKind::Direct).then(|| "Ada Lovelace".into())
    }

    fn text_of(&self, part: &Part) -> String {
        part.text.clone()
    }

    fn debug(&self) -> String {
        format!("{:?}", self.0.console)
    }
}

#[tokio::test]
async fn the_console_keeps_every_promise() {
    let make = || {
        let recorded = Recorded { console: Console, inbox: FakeNetwork::new("inbox") };
        Box::new(ConsoleFixture(Arc::new(recorded))) as Box<dyn Fixture>
    };
    conformance::run(move || Box::pin(async move { make() })).await.assert();
}
