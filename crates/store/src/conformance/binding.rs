//! Replies, threads, and binding a recipient to one instance.

use super::bench::{Bench, VAULT, announce, finding, in_channel, question, to};
use switchboard_core::event::{Addressee, EventKind};
use switchboard_core::ids::{EventId, InstanceNo, StreamId};
use switchboard_core::limits::ANNOUNCED_MS;
use switchboard_core::write::{Announce, Append, Presence, Refusal, Write};

fn reply(from: InstanceNo, to: EventId) -> Append {
    Append { kind: EventKind::Answer, reply_to: Some(to), ..finding(from) }
}

async fn addressee(bench: &mut Bench<'_>, append: Append) -> Option<Addressee> {
    let appended = bench.append(append).await;
    bench.event(appended.id).await.expect("it stands").to
}

/// A thread is the first message's place; replies to replies stay in it; it is listed in order, and from any position on.
pub async fn replies_share_a_thread(mut bench: Bench<'_>) {
    let (me, you) = (bench.instance("ann").await, bench.instance("ben").await);
    let first = bench.append(question(me)).await;
    let unrelated = bench.append(finding(me)).await;
    let second = bench.append(reply(you, first.id)).await;
    let third = bench.append(reply(me, second.id)).await;
    assert_eq!((second.thread, third.thread, unrelated.thread), (first.id, first.id, unrelated.id));
    let stored = bench.event(third.id).await.expect("it stands");
    assert_eq!((stored.reply_to, stored.thread), (Some(second.id), first.id));
    let thread = async |bench: &Bench<'_>, of, after, limit| {
        let found = bench.store().thread(of, after, limit).await.expect("threads are readable");
        found.iter().map(|event| event.id).collect::<Vec<_>>()
    };
    assert_eq!(thread(&bench, first.id, 0, 10).await, [first.id, second.id, third.id]);
    assert_eq!(thread(&bench, first.id, first.id.seq, 10).await, [second.id, third.id]);
    assert_eq!(thread(&bench, first.id, 0, 2).await, [first.id, second.id]);
    assert_eq!(thread(&bench, second.id, 0, 10).await, [], "a reply begins no thread");
}

/// A reply stands in the stream of what it replies to, and to something the sender may see: anything else is refused the
/// same way, whether it exists or not.
pub async fn a_reply_stays_in_its_stream(mut bench: Bench<'_>) {
    let (me, you, third) =
        (bench.instance("ann").await, bench.instance("ben").await, bench.instance("cleo").await);
    bench.announce(you, "helper").await;
    let here = bench.append(finding(me)).await.id;
    let there = bench.append(in_channel(finding(me), "other")).await.id;
    let secret = bench.append(to(finding(me), "helper", None)).await.id;
    let foreign = [
        there,
        EventId { stream: here.stream, seq: 999 },
        EventId { stream: StreamId(999), seq: 1 },
        EventId { stream: here.stream, seq: 0 },
    ];
    for id in foreign {
        assert_eq!(bench.refused(Write::Append(reply(you, id))).await, Refusal::ReplyNotFound, "{id:?}");
    }
    let unmade = in_channel(reply(you, here), "new");
    assert_eq!(bench.refused(Write::Append(unmade)).await, Refusal::ReplyNotFound);
    assert_eq!(bench.refused(Write::Append(reply(third, secret))).await, Refusal::ReplyNotFound);
    // Both ends of a direct message see it.
    assert_eq!(bench.append(reply(you, secret)).await.thread, secret);
    assert_eq!(bench.append(reply(me, secret)).await.thread, secret);
}

/// A name binds to the one other instance that announced it; several are ambiguous, none is unknown, and only when no other
/// did is it the sender's own.
pub async fn a_name_binds_to_the_instance_that_announced_it(mut bench: Bench<'_>) {
    let (me, you, third) =
        (bench.instance("ann").await, bench.instance("ben").await, bench.instance("cleo").await);
    let direct = to(finding(me), "helper", None);
    assert_eq!(bench.refused(Write::Append(direct.clone())).await, Refusal::RecipientUnknown);
    bench.announce(me, "helper").await;
    let own = Some(Addressee { instance: me, agent: "helper".into() });
    assert_eq!(addressee(&mut bench, direct.clone()).await, own);
    bench.announce(you, "helper").await;
    let yours = Some(Addressee { instance: you, agent: "helper".into() });
    assert_eq!(
        addressee(&mut bench, direct.clone()).await,
        yours,
        "another one goes before the sender's own"
    );
    bench.announce(third, "helper").await;
    assert_eq!(bench.refused(Write::Append(direct.clone())).await, Refusal::RecipientAmbiguous);
    // An agent of another vault does not count, nor does another name.
    bench.announce(third, "other").await;
    let other = Some(Addressee { instance: third, agent: "other".into() });
    assert_eq!(addressee(&mut bench, to(finding(me), "other", None)).await, other);
    // A revoked instance is nobody.
    bench.one(Write::RevokeInstance { instance_id: "inst_cleo".into() }).await;
    assert_eq!(addressee(&mut bench, direct).await, yours);
    assert_eq!(bench.refused(Write::Append(to(finding(me), "other", None))).await, Refusal::RecipientUnknown);
}

/// A name can be written to for as long after its announcement as the limit says, also when its agent is closed by then.
pub async fn an_announcement_counts_for_a_day(mut bench: Bench<'_>) {
    let (me, you) = (bench.instance("ann").await, bench.instance("ben").await);
    bench.announce(you, "helper").await;
    bench.one(Write::Close { instance: you, node: 1, only: vec![(VAULT, "helper".into())] }).await;
    let announced_ms = bench.now;
    bench.now = announced_ms + ANNOUNCED_MS;
    let direct = to(finding(me), "helper", None);
    assert_eq!(addressee(&mut bench, direct.clone()).await.map(|to| to.instance), Some(you));
    bench.now += 1;
    assert_eq!(bench.refused(Write::Append(direct.clone())).await, Refusal::RecipientUnknown);
    // Announcing later reaches nothing that was refused, and everything from then on.
    bench.one(Write::Announce(Announce { state: Presence::Idle, ..announce(you, "helper") })).await;
    assert_eq!(addressee(&mut bench, direct).await.map(|to| to.instance), Some(you));
}

/// A named instance is the one, if it is there.
pub async fn a_named_instance_is_taken_at_its_word(mut bench: Bench<'_>) {
    let (me, you, third) =
        (bench.instance("ann").await, bench.instance("ben").await, bench.instance("cleo").await);
    bench.announce(you, "helper").await;
    bench.announce(third, "helper").await;
    let named = |id| to(finding(me), "helper", Some(id));
    assert_eq!(addressee(&mut bench, named("inst_cleo")).await.map(|to| to.instance), Some(third));
    assert_eq!(bench.refused(Write::Append(named("inst_zoe"))).await, Refusal::InstanceUnknown);
    bench.one(Write::RevokeInstance { instance_id: "inst_cleo".into() }).await;
    assert_eq!(bench.refused(Write::Append(named("inst_cleo"))).await, Refusal::InstanceUnknown);
}

/// A reply that names nobody is for everybody who saw what it replies to: for the channel, or for the two ends of a direct
/// message, whichever of them speaks and also when both are agents of one instance.
pub async fn a_reply_to_a_direct_message_stays_between_its_ends(mut bench: Bench<'_>) {
    let (me, you) = (bench.instance("ann").await, bench.instance("ben").await);
    bench.announce(you, "helper").await;
    let end = |instance, agent: &str| Some(Addressee { instance, agent: agent.into() });
    let sender = finding(me).from_agent;
    let asked = bench.append(to(question(me), "helper", None)).await.id;
    let answer = Append { from_agent: "helper".into(), ..reply(you, asked) };
    assert_eq!(addressee(&mut bench, answer).await, end(me, &sender));
    assert_eq!(addressee(&mut bench, reply(me, asked)).await, end(you, "helper"));
    bench.announce(me, "second").await;
    let aside = bench.append(to(finding(me), "second", None)).await.id;
    let back = Append { from_agent: "second".into(), ..reply(me, aside) };
    assert_eq!(addressee(&mut bench, back).await, end(me, &sender));
    let open = bench.append(question(me)).await.id;
    assert_eq!(addressee(&mut bench, reply(you, open)).await, None, "an open question is answered openly");
    bench.one(Write::RevokeInstance { instance_id: "inst_ben".into() }).await;
    assert_eq!(bench.refused(Write::Append(reply(me, asked))).await, Refusal::RecipientUnknown);
}

/// A reply goes to the other end of what it replies to, whoever announced the name meanwhile.
pub async fn a_reply_goes_to_the_other_end(mut bench: Bench<'_>) {
    let (me, you, third) =
        (bench.instance("ann").await, bench.instance("ben").await, bench.instance("cleo").await);
    for (instance, agent) in [(me, "asker"), (third, "asker"), (you, "helper"), (third, "helper")] {
        bench.announce(instance, agent).await;
    }
    let asked = bench.append(to(question(me), "helper", Some("inst_ben"))).await.id;
    let answered = addressee(&mut bench, to(reply(you, asked), "asker", None)).await;
    assert_eq!(answered, Some(Addressee { instance: me, agent: "asker".into() }));
    // The sender adds something: to the same receiver.
    let added = addressee(&mut bench, to(reply(me, asked), "helper", None)).await;
    assert_eq!(added.map(|to| to.instance), Some(you));
    // A broadcast of one's own has no other end: the name decides.
    let open = bench.append(finding(me)).await.id;
    assert_eq!(
        bench.refused(Write::Append(to(reply(me, open), "helper", None))).await,
        Refusal::RecipientAmbiguous
    );
    // Named all the same, the name of the instance goes first.
    let named = addressee(&mut bench, to(reply(you, asked), "asker", Some("inst_cleo"))).await;
    assert_eq!(named.map(|to| to.instance), Some(third));
    // The other end was revoked.
    bench.one(Write::RevokeInstance { instance_id: "inst_ben".into() }).await;
    assert_eq!(
        bench.refused(Write::Append(to(reply(me, asked), "helper", None))).await,
        Refusal::RecipientUnknown
    );
    assert_eq!(bench.channel("general").await.expect("it exists").owner, {
        let name = "general".to_owned();
        switchboard_core::port::store::StreamOwner::Channel { vault: VAULT, name }
    });
}
