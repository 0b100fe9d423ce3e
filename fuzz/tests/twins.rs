//! The properties on generated input, for compilers without libFuzzer. `PROPTEST_CASES` says how much.
//!
//! Half of the input is noise; the other half is well-formed text with a few bytes changed, which gets further.

use proptest::prelude::*;

/// Well-formed input of every kind the properties read; libFuzzer starts from the same files.
fn seeds() -> Vec<Vec<u8>> {
    let folder = std::fs::read_dir(concat!(env!("CARGO_MANIFEST_DIR"), "/seeds")).expect("seeds");
    folder.map(|entry| std::fs::read(entry.expect("an entry").path()).expect("a seed")).collect()
}

fn input() -> impl Strategy<Value = Vec<u8>> {
    let noise = proptest::collection::vec(any::<u8>(), 0..200);
    let change = (any::<proptest::sample::Index>(), any::<u8>(), 0..3_u8);
    let changed = (proptest::sample::select(seeds()), proptest::collection::vec(change, 0..4));
    prop_oneof![noise, changed.prop_map(|(seed, changes)| apply(&seed, &changes))]
}

fn apply(seed: &[u8], changes: &[(proptest::sample::Index, u8, u8)]) -> Vec<u8> {
    let mut bytes = seed.to_vec();
    for (index, byte, how) in changes {
        let at = index.index(bytes.len().max(1));
        match how {
            0 if at < bytes.len() => bytes[at] = *byte,
            1 if at < bytes.len() => drop(bytes.remove(at)),
            _ => bytes.insert(at.min(bytes.len()), *byte),
        }
    }
    bytes
}

proptest! {
    #[test]
    fn json(bytes in input()) {
        fuzz::json(&bytes);
    }

    #[test]
    fn frames(bytes in input()) {
        fuzz::frames(&bytes);
    }

    #[test]
    fn texts(bytes in input()) {
        fuzz::texts(&bytes);
    }

    #[test]
    fn fence(bytes in input()) {
        fuzz::fence(&bytes);
    }

    #[test]
    fn log(bytes in input()) {
        fuzz::log(&bytes);
    }

    #[test]
    fn documents(bytes in input()) {
        fuzz::documents(&bytes);
    }

    #[test]
    fn mail(bytes in input()) {
        fuzz::mail(&bytes);
    }

    #[test]
    fn policy(bytes in input()) {
        fuzz::policy(&bytes);
    }
}

#[test]
fn seeds_hold() {
    for seed in seeds() {
        let wire = [fuzz::json, fuzz::frames, fuzz::texts, fuzz::fence, fuzz::log];
        for property in wire.into_iter().chain([fuzz::documents, fuzz::mail, fuzz::policy]) {
            property(&seed);
        }
    }
}
