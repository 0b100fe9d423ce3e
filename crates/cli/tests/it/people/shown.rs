//! How a question ended is shown where it was asked, whichever way the answer took.

use super::{Desk, in_time, question, said, with};
use serde_json::json;
use switchboard_core::port::channel::{Incoming, IncomingKind};
use switchboard_engine::outbound::hear;

fn choice() -> serde_json::Value {
    with(question("ada", "Deploy now?"), &json!({ "choices": ["Yes", "Not on a *Friday*"] }))
}

async fn press(desk: &Desk, event: &str, from: &str, value: &str) -> Option<String> {
    let what = IncomingKind::Button { value: value.into() };
    hear::take(&desk.hub.hub, Incoming { what, ..said(event, from, "") }).await.unwrap()
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_press_answers_with_the_words_on_the_button_and_the_buttons_go() {
    let desk = Desk::open().await;
    let receipt = desk.sent(&choice()).await;
    in_time(desk.network.until_accepted(1)).await;
    let buttons = desk.network.accepted()[0].part.buttons.clone();
    assert_eq!(
        buttons.iter().map(|button| button.label.as_str()).collect::<Vec<_>>(),
        ["Yes", "Not on a *Friday*"]
    );
    assert!(buttons.iter().all(|button| button.value.len() <= 32 && button.value.is_ascii()), "{buttons:?}");

    // Another one's press, and a choice that was not offered, do nothing.
    let told = press(&desk, "p1", "ben", &buttons[0].value).await.unwrap();
    assert!(told.contains("Nothing is open"), "{told}");
    let forged = buttons[0].value.replace(".1", ".3");
    assert!(press(&desk, "p2", "ada", &forged).await.unwrap().contains("Nothing is open"));
    assert_eq!(desk.conversation(&receipt["topic_id"]).await["state"], "open");

    assert_eq!(press(&desk, "p3", "ada", &buttons[1].value).await, None);
    let topic = desk.conversation(&receipt["topic_id"]).await;
    assert_eq!(
        (&topic["state"], &topic["answer"]["text"]),
        (&json!("answered"), &json!("Not on a *Friday*")),
        "{topic}"
    );
    in_time(desk.network.until_amendments(1)).await;
    let shown = desk.network.amendments().remove(0);
    assert_eq!(shown.outcome, "Answered: Not on a *Friday*");
    assert_eq!((shown.to.handle.as_str(), shown.part.text.as_str()), ("ada", "Deploy now?"));
    let told = press(&desk, "p4", "ada", &buttons[0].value).await.unwrap();
    assert!(told.contains("already answered"), "{told}");
    desk.ledger().await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn an_answer_elsewhere_is_shown_in_the_chat_and_so_is_silence() {
    let desk = Desk::open().await;
    let receipt = desk.sent(&choice()).await;
    in_time(desk.network.until_accepted(1)).await;
    let path = format!("/admin/v1/topics/{}/answer", receipt["topic_id"].as_str().unwrap());
    let answered = desk.admin().post(&path, &json!({ "text": "go\non" })).await;
    assert_eq!(answered.status, 200, "{}", answered.text);
    in_time(desk.network.until_amendments(1)).await;
    assert_eq!(desk.network.amendments()[0].outcome, "Answered by Owner (cli): go on");

    let receipt = desk.sent(&choice()).await;
    in_time(desk.network.until_accepted(2)).await;
    let (agent, topic) = (desk.hub.http(&desk.agent), json!({ "topic_id": receipt["topic_id"] }));
    let withdrawn = agent.post(super::WITHDRAW, &topic);
    assert_eq!(withdrawn.await.status, 200);
    in_time(desk.network.until_amendments(2)).await;
    assert_eq!(desk.network.amendments()[1].outcome, "This question is closed.");
}
