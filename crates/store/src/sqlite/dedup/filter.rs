//! A blocked Bloom filter: tells at the cost of one cache line that a run does not hold a key. Almost every key that is
//! asked for is new, so this is what deduplication costs.

use super::entry::Key;

/// Bits per entry: about one wrong "maybe" in a hundred.
const BITS_PER_ENTRY: usize = 12;
/// Words of a block: one cache line.
const BLOCK_WORDS: usize = 8;
/// Bits set per key.
const PROBES: u32 = 6;

/// See the module.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct Filter {
    words: Vec<u64>,
}

impl Filter {
    /// A filter for so many entries.
    pub(crate) fn for_entries(entries: usize) -> Self {
        let blocks = (entries * BITS_PER_ENTRY).div_ceil(BLOCK_WORDS * 64).max(1);
        Self { words: vec![0; blocks * BLOCK_WORDS] }
    }

    /// Adds a key.
    pub(crate) fn insert(&mut self, key: &Key) {
        let (start, bits) = self.place(key);
        for (word, bit) in probes(bits) {
            self.words[start + word] |= bit;
        }
    }

    /// `false` when the key was never added.
    pub(crate) fn may_hold(&self, key: &Key) -> bool {
        let (start, bits) = self.place(key);
        probes(bits).all(|(word, bit)| self.words[start + word] & bit != 0)
    }

    /// The stored form.
    pub(crate) fn to_bytes(&self) -> Vec<u8> {
        self.words.iter().flat_map(|word| word.to_le_bytes()).collect()
    }

    /// The inverse of [`Filter::to_bytes`]; another length than one of blocks is `None`.
    pub(crate) fn from_bytes(bytes: &[u8]) -> Option<Self> {
        if bytes.is_empty() || !bytes.len().is_multiple_of(BLOCK_WORDS * 8) {
            return None;
        }
        let words = bytes.chunks_exact(8).map(|word| word.try_into().map(u64::from_le_bytes));
        Some(Self { words: words.collect::<Result<_, _>>().ok()? })
    }

    // Keys are hashes: their halves serve as two independent ones.
    fn place(&self, key: &Key) -> (usize, u64) {
        let [high, low] = [&key[..8], &key[8..]].map(|half| half.try_into().map_or(0, u64::from_be_bytes));
        let blocks = self.words.len() / BLOCK_WORDS;
        let block = usize::try_from((u128::from(high) * blocks as u128) >> 64).unwrap_or(0);
        (block * BLOCK_WORDS, low)
    }
}

fn probes(bits: u64) -> impl Iterator<Item = (usize, u64)> {
    (0..PROBES).map(move |probe| {
        let at = bits >> (9 * probe) & 511;
        (usize::try_from(at / 64).unwrap_or(0), 1 << (at % 64))
    })
}

#[cfg(test)]
mod tests {
    use super::super::entry::key;
    use super::*;
    use switchboard_core::ids::InstanceNo;

    fn keys(from: u32) -> impl Iterator<Item = Key> {
        (0..20_000).map(move |at| key(InstanceNo(from), &at.to_string()))
    }

    #[test]
    fn holds_what_was_added_and_little_else() {
        let mut filter = Filter::for_entries(20_000);
        keys(1).for_each(|key| filter.insert(&key));
        let filter = Filter::from_bytes(&filter.to_bytes()).unwrap();
        assert!(keys(1).all(|key| filter.may_hold(&key)));
        let wrong = keys(2).filter(|key| filter.may_hold(key)).count();
        assert!(wrong < 20_000 / 50, "{wrong}");
    }

    #[test]
    fn foreign_bytes_are_refused() {
        assert_eq!(Filter::from_bytes(&[]), None);
        assert_eq!(Filter::from_bytes(&[0; 63]), None);
        assert!(!Filter::for_entries(0).may_hold(&[9; 16]));
    }
}
