//! What a channel is, whom it reaches, and what it does not tell.

use super::trial::{Trial, ensure};
use super::{Behaviour, SECRET, Verdict, Wait};
use switchboard_core::port::channel::check_name;
use switchboard_core::port::channel::{AddressKind, Performed};

type Outcome = Result<Verdict, String>;

/// Texts that are nowhere an address.
const JUNK: [&str; 9] =
    ["", " ", "\t\r\n", "a\r\nBcc: b", "a\0b", "\u{202e}ada", "\u{200b}", "ada\u{e0041}", "a\u{7}b"];

pub(super) async fn what_it_is_does_not_change_and_makes_sense(trial: Trial) -> Outcome {
    let channel = trial.channel();
    check_name(channel.name())?;
    check_name(channel.kind())?;
    let can = channel.capabilities().clone();
    ensure(can.direct || can.shared, || "it reaches nobody".to_owned())?;
    ensure(can.part_max > 0 && can.parts_max > 0, || "no part of a message fits".to_owned())?;
    for (reaches, kind) in [(can.direct, AddressKind::Direct), (can.shared, AddressKind::Channel)] {
        ensure(trial.fixture.address(kind).is_some() == reaches, || {
            format!("it reaches {}: {reaches}, but the fixture says otherwise", kind.as_str())
        })?;
        ensure(reaches || channel.normalise(kind, "ada").is_err(), || {
            format!("it does not reach {}, and takes such an address", kind.as_str())
        })?;
    }
    trial.under(Behaviour::Accept).await?;
    ensure(can == *channel.capabilities(), || "its capabilities have changed".to_owned())?;
    Ok(Verdict::Kept)
}

pub(super) async fn an_address_has_one_form(trial: Trial) -> Outcome {
    let channel = trial.channel();
    for kind in [AddressKind::Direct, AddressKind::Channel] {
        let Some(address) = trial.fixture.address(kind) else { continue };
        for spelling in [address.clone(), format!("  {address}\t"), format!("\u{a0}{address}\n")] {
            let once = channel.normalise(kind, &address)?;
            let spelled = channel.normalise(kind, &spelling)?;
            ensure(spelled == once, || format!("{spelling:?} became {spelled:?} and not {once:?}"))?;
            let twice = channel.normalise(kind, &once)?;
            ensure(once == twice, || format!("{once:?} became {twice:?} the second time"))?;
        }
    }
    Ok(Verdict::Kept)
}

pub(super) async fn junk_is_no_address(trial: Trial) -> Outcome {
    let channel = trial.channel();
    let long = "a".repeat(100_000);
    let junk = JUNK.into_iter().map(str::to_owned).chain([long]).chain(trial.fixture.junk());
    for junk in junk {
        for kind in [AddressKind::Direct, AddressKind::Channel] {
            let taken = channel.normalise(kind, &junk);
            let start: String = junk.chars().take(40).collect();
            ensure(taken.as_ref().is_err_and(|why| !why.trim().is_empty()), || {
                format!("{start:?} is taken for an address of kind {}", kind.as_str())
            })?;
            ensure(taken.is_err_and(|why| why.len() < 1000), || {
                "a refusal repeats a long address".to_owned()
            })?;
        }
    }
    Ok(Verdict::Kept)
}

pub(super) async fn secrets_are_shown_nowhere(trial: Trial) -> Outcome {
    let mut shown = vec![trial.fixture.debug()];
    let behaviours = [
        Behaviour::AcceptThenSilence,
        Behaviour::AcceptThenReset,
        Behaviour::AcceptThenGarbage,
        Behaviour::AcceptThenTruncate,
        Behaviour::AcceptThenFail,
        Behaviour::Reset,
        Behaviour::Refuse,
        Behaviour::Busy,
        Behaviour::Throttle(Wait::Seconds(1)),
        Behaviour::Unreachable,
    ];
    for behaviour in behaviours {
        shown.extend(trial.under(behaviour).await?.map(|(_, performed)| format!("{performed:?}")));
    }
    shown.extend(trial.channel().normalise(AddressKind::Direct, "").err());
    // Keys are often kept as bytes, which `Debug` prints as numbers.
    let bytes = format!("{:?}", SECRET.as_bytes());
    let leak =
        shown.iter().find(|text| text.contains(SECRET) || text.contains(bytes.trim_matches(['[', ']'])));
    ensure(leak.is_none(), || format!("it shows a secret: {leak:?}"))?;
    let last = trial.under(Behaviour::Accept).await?.map(|(_, performed)| performed);
    ensure(matches!(last, Some(Performed::Sent { .. })), || {
        format!("afterwards it does not send: {last:?}")
    })?;
    Ok(Verdict::Kept)
}
