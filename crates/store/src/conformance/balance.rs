//! The ledger: after any sequence of writes every accepted unit is in exactly one state, and the counters say which.

use super::bench::{Bench, START_MS, finding, task_data, to};
use std::collections::BTreeMap;
use switchboard_core::event::EventKind;
use switchboard_core::ids::{EventId, InstanceNo};
use switchboard_core::ledger::Ledger;
use switchboard_core::time::MINUTE_MS;
use switchboard_core::write::{Append, Outcome, Receipt, ReceiptState, Recipient, Write};

/// Steps of one random run.
const STEPS: u32 = 400;

/// A small generator, so that runs repeat (Knuth's MMIX constants).
struct Dice(u64);

impl Dice {
    fn roll(&mut self, sides: u64) -> u64 {
        self.0 = self.0.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1_442_695_040_888_963_407);
        (self.0 >> 33) % sides
    }
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum State {
    Pending,
    Delivered,
    Answered,
    Expired,
}

/// What the test knows of one unit.
#[derive(Debug)]
struct Unit {
    state: State,
    deadline_ms: Option<i64>,
    direct: bool,
    stored: bool,
    expires_at_ms: i64,
}

struct Model {
    units: BTreeMap<EventId, Unit>,
    me: InstanceNo,
    you: InstanceNo,
}

impl Model {
    fn ledger(&self) -> Ledger {
        let count = |state| self.units.values().filter(|unit| unit.state == state).count() as u64;
        Ledger {
            accepted: self.units.len() as u64,
            delivered: count(State::Delivered),
            answered: count(State::Answered),
            expired: count(State::Expired),
            pending: count(State::Pending),
            ..Ledger::default()
        }
    }

    fn appended(&mut self, append: &Append, id: EventId) {
        let replied = append.reply_to.and_then(|to| self.units.get(&to));
        let direct = append.recipient != Recipient::Everyone || replied.is_some_and(|unit| unit.direct);
        let deadline_ms = append.deadline_ms;
        let pending = direct || deadline_ms.is_some();
        let state = if pending { State::Pending } else { State::Delivered };
        let expires_at_ms = append.expires_at_ms;
        self.units.insert(id, Unit { state, deadline_ms, direct, stored: true, expires_at_ms });
        if append.kind == EventKind::Answer && append.from_instance == self.you {
            let question = append.reply_to.and_then(|to| self.units.get_mut(&to));
            if let Some(unit) =
                question.filter(|unit| unit.deadline_ms.is_some() && unit.state == State::Pending)
            {
                unit.state = State::Answered;
            }
        }
    }

    fn received(&mut self, id: EventId) {
        let unit = self.units.get_mut(&id).expect("a receipt for a known unit");
        if unit.direct && unit.deadline_ms.is_none() && unit.state == State::Pending {
            unit.state = State::Delivered;
        }
    }

    fn expire_questions(&mut self, now: i64) {
        for unit in self.units.values_mut() {
            let due = unit.deadline_ms.is_some_and(|deadline| deadline <= now);
            if due && unit.state == State::Pending {
                unit.state = State::Expired;
            }
        }
    }

    // Task events are no units, but they stand in the stream and hold up what lies behind them: the store is asked.
    fn swept(&mut self, first: u64, now: i64) {
        for (id, unit) in &mut self.units {
            if id.seq < first {
                assert!(!unit.stored || unit.expires_at_ms <= now, "{id:?} went too early");
                unit.stored = false;
                if unit.state == State::Pending {
                    unit.state = State::Expired;
                }
            }
        }
    }

    fn pick(&self, dice: &mut Dice) -> Option<EventId> {
        let stored: Vec<_> = self.units.iter().filter(|(_, unit)| unit.stored).map(|(id, _)| *id).collect();
        let at = dice.roll(stored.len().max(1) as u64);
        stored.get(usize::try_from(at).unwrap_or(0)).copied()
    }
}

fn random_append(model: &Model, dice: &mut Dice, now: i64) -> Append {
    let lasting = START_MS + MINUTE_MS * i64::try_from(5 + dice.roll(40)).unwrap_or(5);
    let append = Append { expires_at_ms: now.max(lasting), ..finding(model.me) };
    let append = match dice.roll(5) {
        0 | 1 => Append { kind: EventKind::Question, deadline_ms: Some(now + MINUTE_MS), ..append },
        2 => Append { kind: EventKind::Publish, ..append },
        _ => append,
    };
    if dice.roll(2) == 0 && append.kind != EventKind::Publish { to(append, "helper", None) } else { append }
}

fn random_answer(model: &Model, dice: &mut Dice, now: i64) -> Option<Append> {
    let from_instance = if dice.roll(4) == 0 { model.me } else { model.you };
    let reply_to = Some(model.pick(dice)?);
    let expires_at_ms = now + 10 * MINUTE_MS;
    Some(Append { kind: EventKind::Answer, reply_to, expires_at_ms, from_instance, ..finding(model.me) })
}

async fn step(bench: &mut Bench<'_>, model: &mut Model, dice: &mut Dice) {
    bench.now += i64::try_from(dice.roll(20_000)).unwrap_or(0);
    match dice.roll(10) {
        0..=3 => {
            let append = random_append(model, dice, bench.now);
            bench.announce(model.you, "helper").await;
            let id = bench.append(append.clone()).await.id;
            model.appended(&append, id);
        }
        4 | 5 => {
            let Some(append) = random_answer(model, dice, bench.now) else { return };
            let id = bench.append(append.clone()).await.id;
            model.appended(&append, id);
        }
        6 | 7 => {
            let Some(event) = model.pick(dice) else { return };
            let state = if dice.roll(2) == 0 { ReceiptState::Delivered } else { ReceiptState::Read };
            let receipt = Receipt { event, instance: model.you, agent: "helper".into(), state };
            if let Outcome::Receipt { .. } = bench.one(Write::Receipt(receipt)).await {
                model.received(event);
            }
        }
        8 => {
            let data = task_data(bench.installation.hub_instance);
            bench.one(Write::ExpireQuestions { limit: 1000, data }).await;
            model.expire_questions(bench.now);
        }
        _ => {
            bench.one(Write::Sweep { limit: 1000 }).await;
            if let Some(stream) = bench.channel("general").await {
                model.swept(stream.first, bench.now);
            }
        }
    }
}

/// The counters are those of a model, after each of many random writes, and survive restarts.
pub async fn the_ledger_is_that_of_a_model(mut bench: Bench<'_>) {
    let (me, you) = (bench.instance("ann").await, bench.instance("ben").await);
    let mut model = Model { units: BTreeMap::new(), me, you };
    let mut dice = Dice(1);
    let steps = if bench.restless { STEPS / 8 } else { STEPS };
    for at in 0..steps {
        step(&mut bench, &mut model, &mut dice).await;
        let ledger = bench.store().ledger().await.expect("readable");
        assert!(ledger.is_balanced(), "{ledger:?}");
        assert_eq!(ledger, model.ledger(), "step {at}");
    }
    bench.restart().await;
    assert_eq!(bench.store().ledger().await.expect("readable"), model.ledger());
    let states = [State::Pending, State::Delivered, State::Answered, State::Expired];
    let seen = |state| model.units.values().any(|unit| unit.state == state);
    assert!(bench.restless || states.into_iter().all(seen), "the run has seen every state");
}
