//! The Rust library's way to people.

use super::{Desk, in_time};
use std::time::Duration;
use switchboard_client::sink::{HubSink, MessageSink, OutboundMessage, Recipient};
use switchboard_client::{Error, Http, Secret, Tuning};

fn message(to: &str, key: Option<&str>) -> OutboundMessage {
    OutboundMessage {
        channel: "chat".into(),
        to: Recipient::Direct(to.into()),
        body: "Red or blue?".into(),
        message_kind: None,
        deadline_ms: None,
        idempotency_key: key.map(str::to_owned),
        choices: vec!["Red".into(), "Blue".into()],
    }
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_library_asks_waits_and_takes_back() {
    let desk = Desk::open().await;
    let http = Http::new(&desk.hub.url, Secret::new(desk.agent.bearer.clone()), &Tuning::default()).unwrap();
    let hub = HubSink::new(http).in_name_of("painter");
    let sink: &dyn MessageSink = &hub;
    assert_eq!(sink.channels().await.unwrap(), ["chat", "console"]);
    let first = sink.send(&message("ada", Some("k"))).await.unwrap();
    assert!(first.delivered && !first.deduplicated, "{first:?}");
    let again = sink.send(&message("ada", Some("k"))).await.unwrap();
    assert_eq!((again.send_id.as_ref(), again.deduplicated), (first.send_id.as_ref(), true));
    assert_eq!(desk.network.attempts().len(), 1);
    assert_eq!(desk.network.attempts()[0].part.buttons.len(), 2);

    let Err(Error::Refused(detail)) = sink.send(&message("stranger", None)).await else {
        panic!("not paired")
    };
    assert_eq!((detail.reason.as_deref(), detail.sb.as_deref()), (Some("not_paired"), Some("SB0131")));

    let topic = first.topic_id.unwrap();
    assert_eq!(hub.conversation(&topic, Duration::ZERO).await.unwrap().state, "open");
    let waiting = {
        let (hub, topic) = (hub.clone(), topic.clone());
        tokio::spawn(async move { hub.conversation(&topic, Duration::from_mins(10)).await })
    };
    desk.says("e1", "ada", "Blue").await;
    let found = in_time(waiting).await.unwrap().unwrap();
    assert_eq!(found.answer.map(|answer| answer.text).as_deref(), Some("Blue"));

    let second = hub.send(&message("ada", None)).await.unwrap().topic_id.unwrap();
    hub.withdraw(&second).await.unwrap();
    assert_eq!(hub.conversation(&second, Duration::ZERO).await.unwrap().state, "withdrawn");
    assert!(matches!(hub.withdraw(&second).await, Err(Error::Refused(_))));
}
