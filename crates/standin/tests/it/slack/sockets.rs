//! Sockets that are left, lost, or fall silent.

use super::{PATIENCE, Set, Taker, Way};
use futures_util::future::BoxFuture;
use std::sync::Arc;
use switchboard_core::port::channel::{Inbound, Incoming};
use switchboard_core::port::store::StoreError;
use switchboard_standin::slack::ADA;
use tokio::sync::Semaphore;
use tokio::time::timeout;

async fn in_time<T>(work: impl Future<Output = T>) -> T {
    timeout(PATIENCE, work).await.expect("it did not happen in time")
}

/// Takes each when it is let.
struct Slow {
    taker: Arc<Taker>,
    gate: Semaphore,
}

impl Inbound for Slow {
    fn take(&self, incoming: Incoming) -> BoxFuture<'_, Result<Option<String>, StoreError>> {
        Box::pin(async move {
            let taken = self.taker.take(incoming);
            self.gate.acquire().await.map_err(|_| StoreError::Closed)?.forget();
            taken.await
        })
    }

    fn health(&self, channel: &str, fault: Option<String>) {
        self.taker.health(channel, fault);
    }
}

#[tokio::test]
async fn a_new_socket_is_there_before_the_old_one_is_left() {
    let set = Set::start(Way::Socket).await;
    let slow = Arc::new(Slow { taker: Taker::new(0, None), gate: Semaphore::new(0) });
    let _listening =
        super::Listening(tokio::spawn(super::Channel::listen(set.channel.clone(), slow.clone())));
    in_time(set.standin.until_opened(1)).await;
    set.standin.write(ADA, None, None, "on the old one", "1");
    slow.taker.until_seen(1).await;
    set.standin.disconnect("refresh_requested");
    in_time(set.standin.until_opened(2)).await;
    assert_eq!(set.standin.sockets_at_once(), 2);
    set.standin.write(ADA, None, None, "on the new one", "2");
    slow.taker.until_seen(2).await;
    assert_eq!(set.standin.acknowledged(), 0);
    slow.gate.add_permits(2);
    in_time(set.standin.until_acknowledged(2)).await;
    set.standin.close_left_sockets();
    in_time(set.standin.until_sockets(1)).await;
    assert!(slow.taker.health.lock().iter().all(Option::is_none), "nobody noticed");
}

#[tokio::test]
async fn lost_sockets_are_opened_again_and_nothing_is_missed() {
    let set = Set::start(Way::Socket).await;
    let taker = Taker::new(0, None);
    let _listening = set.listen(&taker);
    in_time(set.standin.until_opened(1)).await;
    taker.until_health(None).await;
    set.standin.close_sockets();
    set.standin.write(ADA, None, None, "meanwhile", "1");
    in_time(set.standin.until_opened(2)).await;
    in_time(set.standin.until_acknowledged(1)).await;
    assert_eq!(taker.seen().len(), 1);
    taker.until_health(None).await;
    in_time(set.standin.until_pongs(1)).await;
}

#[tokio::test]
async fn a_socket_that_stands_and_says_nothing_is_given_up() {
    let set = Set::start(Way::Socket).await;
    let taker = Taker::new(0, None);
    let _listening = set.listen(&taker);
    in_time(set.standin.until_opened(1)).await;
    set.standin.freeze_sockets();
    taker.until_health(Some("nothing has come")).await;
    in_time(set.standin.until_opened(2)).await;
    set.standin.write(ADA, None, None, "back", "1");
    taker.until_seen(1).await;
}

#[tokio::test]
async fn faults_are_told_and_pass() {
    let set = Set::start(Way::Socket).await;
    let taker = Taker::new(0, None);
    set.standin.revoke(Some("invalid_auth"));
    let _listening = set.listen(&taker);
    taker.until_health(Some("the token is wrong")).await;
    set.standin.revoke(None);
    taker.until_health(None).await;
    set.standin.disconnect("link_disabled");
    set.standin.revoke(Some("not_allowed_token_type"));
    taker.until_health(Some("app_token: Slack answered not_allowed_token_type")).await;
    let faults: Vec<_> = taker.health.lock().iter().flatten().cloned().collect();
    assert!(faults.iter().any(|fault| fault.contains("Socket Mode is turned off")), "{faults:?}");
    assert!(faults.iter().all(|fault| !fault.contains("ticket")), "{faults:?}");
    set.standin.revoke(None);
    taker.until_health(None).await;
}

#[tokio::test]
async fn what_cannot_be_stored_is_brought_again_on_whatever_socket() {
    let set = Set::start(Way::Socket).await;
    let taker = Taker::new(2, None);
    let _listening = set.listen(&taker);
    set.standin.write(ADA, None, None, "one", "1");
    taker.until_seen(1).await;
    set.standin.bring_again();
    taker.until_seen(2).await;
    set.standin.close_sockets();
    in_time(set.standin.until_opened(2)).await;
    set.standin.bring_again();
    in_time(set.standin.until_acknowledged(1)).await;
    let seen = taker.seen();
    assert!(seen.len() >= 3 && seen.iter().all(|one| one == &seen[0]));
}

#[tokio::test]
async fn two_listeners_of_one_app_share_what_comes() {
    let set = Set::start(Way::Socket).await;
    let taker = Taker::new(0, None);
    let _listening = (set.listen(&taker), set.listen(&taker));
    in_time(set.standin.until_opened(2)).await;
    for number in 0..20 {
        set.standin.write(ADA, None, None, &format!("number {number}"), &number.to_string());
    }
    in_time(set.standin.until_acknowledged(20)).await;
    assert_eq!(taker.seen().len(), 20);
}
