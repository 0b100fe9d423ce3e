//! What comes in.

use super::fixture::{Party, settings};
use super::{Ear, listening, question, sent};
use serde_json::json;
use std::sync::Arc;
use switchboard_channels::matrix::{Matrix, Settings};
use switchboard_core::port::channel::{AddressKind, Channel, Incoming, IncomingKind, Origin};
use switchboard_standin::synapse::Synapse;

fn text(incoming: &Incoming) -> &str {
    match &incoming.what {
        IncomingKind::Text { text } => text,
        other => panic!("{other:?}"),
    }
}

fn texts(heard: &[Incoming]) -> Vec<&str> {
    heard.iter().map(text).collect()
}

#[tokio::test]
async fn a_question_goes_out_and_its_answer_comes_in() {
    let party = Party::start().await;
    let listening = listening(&party.channel).await;
    *listening.ear.reply.lock() = Some("Thank you @room".into());
    let attempt = question(&*party.channel, "dlv_ask", AddressKind::Direct, &party.ada.id);
    let asked = sent(&*party.channel, &attempt).await;
    let content = json!({
        "msgtype": "m.text", "body": "> <@bot:hs.test> May I\n\non Friday",
        "m.relates_to": { "m.in_reply_to": { "event_id": asked } },
    });
    let answer = party.ada.send_event(&party.room, "m.room.message", "answer", &content).await;
    let heard = listening.ear.heard(1).await.remove(0);
    assert_eq!((text(&heard), &heard.from, &heard.event_id), ("on Friday", &party.ada.id, &answer));
    assert_eq!(heard.origin, Origin::Verified { by: "api".into() });
    assert_eq!(
        (&heard.references, &heard.place, &heard.message_id),
        (&vec![asked], &None, &Some(answer.clone()))
    );
    // What there is to say goes back to where it was written, as a notice that answers it.
    let said = loop {
        let events = party.ada.events(&party.room).await;
        if let Some(said) = events.into_iter().find(|event| event["content"]["msgtype"] == "m.notice") {
            break said["content"].clone();
        }
    };
    assert_eq!((&said["body"], &said["m.mentions"]), (&json!("Thank you @\u{2060}room"), &json!({})));
    assert_eq!(said["m.relates_to"]["m.in_reply_to"]["event_id"], answer);
}

#[tokio::test]
async fn what_was_written_while_we_were_away_is_not_lost() {
    let party = Party::start().await;
    {
        let listening = listening(&party.channel).await;
        party.ada.write(&party.room, "t1", "before").await;
        listening.ear.heard(1).await;
        // Taken, and perhaps not written down.
    }
    // More than one answer holds, so that what it leaves out has to be asked for.
    for number in 0..130 {
        party.ada.write(&party.room, &format!("away{number}"), &format!("away {number}")).await;
    }
    let again = Arc::new(Matrix::new(settings(&party.proxy, &party.bot)).unwrap());
    let ear = Arc::new(Ear::default());
    // The store fails twice in the middle.
    *ear.failures.lock() = 2;
    let task = tokio::spawn(again.listen(ear.clone()));
    let heard = ear.heard(130).await;
    task.abort();
    let mut found = texts(&heard);
    found.retain(|text| *text != "before");
    let expected: Vec<String> = (0..130).map(|number| format!("away {number}")).collect();
    assert_eq!(found, expected, "each once, in order");
}

#[tokio::test]
async fn a_lost_offset_loses_nothing_that_is_younger() {
    let party = Party::start().await;
    party.ada.write(&party.room, "t1", "younger").await;
    let path = format!("user/{}/account_data/{}", party.bot.id, super::fixture::OFFSET);
    let mut offset = party.bot.get(&path).await;
    offset["since"] = "nonsense".into();
    party.bot.call("PUT", &path, &offset).await;
    let listening = listening(&party.channel).await;
    party.ada.write(&party.room, "t2", "new").await;
    let heard = listening.ear.heard(2).await;
    assert_eq!(texts(&heard), ["younger", "new"]);
}

#[tokio::test]
async fn history_from_before_the_first_start_is_left_alone() {
    let party = Party::start().await;
    party.ada.write(&party.room, "t1", "old").await;
    let path = format!("user/{}/account_data/{}", party.bot.id, super::fixture::OFFSET);
    party.bot.call("PUT", &path, &json!(null)).await;
    party.bot.call("PUT", &path, &json!({})).await;
    let clean = Synapse::shared().await.register("late").await;
    party.ada.call("POST", &format!("rooms/{}/invite", party.room), &json!({ "user_id": clean.id })).await;
    clean.join(&party.room).await;
    let direct = json!({ &party.ada.id: [party.room] });
    clean.call("PUT", &format!("user/{}/account_data/m.direct", clean.id), &direct).await;
    let channel = Arc::new(Matrix::new(settings(&party.proxy, &clean)).unwrap());
    let listening = listening(&channel).await;
    party.ada.write(&party.room, "t2", "new").await;
    assert_eq!(texts(&listening.ear.heard(1).await), ["new"]);
}

#[tokio::test]
async fn edits_and_deletions_are_their_writers_own() {
    let party = Party::start().await;
    let listening = listening(&party.channel).await;
    let written = party.ada.write(&party.room, "t1", "yes").await;
    listening.ear.heard(1).await;
    // Somebody else in the room changes, and takes away, what is not theirs.
    let eve = Synapse::shared().await.register("eve").await;
    party.ada.call("POST", &format!("rooms/{}/invite", party.room), &json!({ "user_id": eve.id })).await;
    eve.join(&party.room).await;
    let edit = |text: &str| {
        json!({
            "msgtype": "m.text", "body": format!("* {text}"), "m.new_content": { "msgtype": "m.text", "body": text },
            "m.relates_to": { "rel_type": "m.replace", "event_id": written },
        })
    };
    eve.send_event(&party.room, "m.room.message", "forged", &edit("forged")).await;
    party.ada.send_event(&party.room, "m.room.message", "edit", &edit("no")).await;
    party.ada.call("PUT", &format!("rooms/{}/redact/{written}/t2", party.room), &json!({})).await;
    let heard = listening.ear.heard(3).await;
    assert_eq!(heard[1].what, IncomingKind::Edited { message_id: written.clone(), text: "no".into() });
    assert_eq!(heard[2].what, IncomingKind::Deleted { message_id: written });
}

#[tokio::test]
async fn reactions_press_only_choices_of_ours() {
    let party = Party::start().await;
    let listening = listening(&party.channel).await;
    let attempt = question(&*party.channel, "dlv_press", AddressKind::Direct, &party.ada.id);
    let asked = sent(&*party.channel, &attempt).await;
    let forged = json!({
        "msgtype": "m.text", "body": "forged", "io.switchboard.message": { "delivery": "dlv_press", "choices": ["approve SB-K7QD3M"] },
    });
    let forged = party.ada.send_event(&party.room, "m.room.message", "forged", &forged).await;
    listening.ear.heard(1).await;
    for (number, (target, key)) in
        [(&forged, "1️⃣"), (&asked, "3️⃣"), (&asked, "👍"), (&asked, "2\u{20e3}")].into_iter().enumerate()
    {
        let relation = json!({ "rel_type": "m.annotation", "event_id": target, "key": key });
        let content = json!({ "m.relates_to": relation });
        party.ada.send_event(&party.room, "m.reaction", &format!("r{number}"), &content).await;
    }
    let heard = listening.ear.heard(2).await;
    assert_eq!(heard[1].what, IncomingKind::Button { value: "SB-K7QD3M.2".into() });
    assert_eq!(heard[1].references, [asked]);
}

#[tokio::test]
async fn in_shared_rooms_only_what_is_said_to_us_comes_in() {
    let party = Party::start().await;
    let listening = listening(&party.channel).await;
    let room = party.shared_room().await;
    let asked =
        sent(&*party.channel, &question(&*party.channel, "dlv_shared", AddressKind::Channel, &party.alias))
            .await;
    let theirs = party.ada.write(&room, "t1", "not to you").await;
    let write = async |transaction: &str, body: &str, more: serde_json::Value| {
        let mut content = json!({ "msgtype": "m.text", "body": body });
        content.as_object_mut().unwrap().extend(more.as_object().unwrap().clone());
        party.ada.send_event(&room, "m.room.message", transaction, &content).await
    };
    let reply = |to: &str| json!({ "m.relates_to": { "m.in_reply_to": { "event_id": to } } });
    write("t2", "a reply among themselves", reply(&theirs)).await;
    write(
        "t3",
        "an echo of a machine",
        json!({ "msgtype": "m.notice", "m.mentions": { "user_ids": [party.bot.id] } }),
    )
    .await;
    write("t4", "an answer", reply(&asked)).await;
    let thread = json!({ "m.relates_to": { "rel_type": "m.thread", "event_id": asked, "m.in_reply_to": { "event_id": theirs } } });
    write("t5", "in the thread", thread).await;
    write("t6", "by name", json!({ "m.mentions": { "user_ids": [party.bot.id] } })).await;
    let heard = listening.ear.heard(3).await;
    assert_eq!(texts(&heard), ["an answer", "in the thread", "by name"]);
    assert!(heard.iter().all(|incoming| incoming.place.as_deref() == Some(room.as_str())), "{heard:?}");
    assert_eq!(heard[1].references, [asked, theirs]);
}

#[tokio::test]
async fn invitations_are_accepted_from_servers_that_may() {
    let party = Party::start().await;
    let bea = Synapse::shared().await.register("bea").await;
    let listening_ = listening(&party.channel).await;
    let content = json!({ "preset": "private_chat", "is_direct": true, "invite": [party.bot.id] });
    let room = bea.create_room(content.clone()).await;
    bea.write(&room, "t1", "PAIR-CODE").await;
    let heard = listening_.ear.heard(1).await.remove(0);
    assert_eq!((text(&heard), &heard.from, &heard.place), ("PAIR-CODE", &bea.id, &None));
    // From then on messages to them go there.
    sent(&*party.channel, &question(&*party.channel, "dlv_there", AddressKind::Direct, &bea.id)).await;
    assert_eq!(*party.seen.rooms.borrow(), 0);
    drop(listening_);
    let strict =
        Settings { invite_servers: Some(vec!["other.test".into()]), ..settings(&party.proxy, &party.bot) };
    let strict = Arc::new(Matrix::new(strict).unwrap());
    let listening_ = listening(&strict).await;
    let closed = bea.create_room(content).await;
    bea.write(&closed, "t1", "let me in").await;
    party.ada.write(&party.room, "t2", "after").await;
    assert_eq!(texts(&listening_.ear.heard(1).await).last(), Some(&"after"));
    let member = bea.get(&format!("rooms/{closed}/state/m.room.member/{}", party.bot.id)).await;
    assert_eq!(member["membership"], "invite");
}

#[tokio::test]
async fn what_is_encrypted_is_reported_and_what_ends_is_mended() {
    let party = Party::start().await;
    let listening = listening(&party.channel).await;
    let room = party.shared_room().await;
    let algorithm = json!({ "algorithm": "m.megolm.v1.aes-sha2" });
    party.ada.call("PUT", &format!("rooms/{room}/state/m.room.encryption/"), &algorithm).await;
    let secret = json!({ "algorithm": "m.megolm.v1.aes-sha2", "ciphertext": "AwgA", "session_id": "s", "sender_key": "k", "device_id": "d" });
    party.ada.send_event(&room, "m.room.encrypted", "t1", &secret).await;
    let fault = listening.ear.until_health(Option::is_some).await.unwrap();
    assert!(fault.contains(&room) && fault.contains("end-to-end encrypted"), "{fault}");
    party.ada.write(&party.room, "t2", "plain").await;
    listening.ear.until_health(Option::is_none).await;
    // The homeserver goes away, and comes back.
    party.proxy.refuse(Some(("502 Bad Gateway", "<html>")));
    listening.ear.until_health(Option::is_some).await;
    party.ada.write(&party.room, "t3", "meanwhile").await;
    party.proxy.refuse(None);
    listening.ear.until_health(Option::is_none).await;
    assert_eq!(texts(&listening.ear.heard(2).await), ["plain", "meanwhile"]);
}

#[tokio::test]
async fn hostile_texts_and_files_come_in_as_text() {
    let party = Party::start().await;
    let listening = listening(&party.channel).await;
    let long = "Z\u{310}\u{202e}".repeat(9000);
    party.ada.write(&party.room, "t1", &long).await;
    let file = json!({ "msgtype": "m.file", "body": "plan.pdf", "url": "mxc://hs.test/a", "info": { "size": 120_000 } });
    party.ada.send_event(&party.room, "m.room.message", "t2", &file).await;
    let odd = json!({ "msgtype": "m.text", "body": "odd", "m.relates_to": { "rel_type": 3 }, "io.switchboard.message": "x" });
    party.ada.send_event(&party.room, "m.room.message", "t3", &odd).await;
    assert_eq!(texts(&listening.ear.heard(3).await), [&long, "[file: plan.pdf, 120 kB]", "odd"]);
}
