//! What is remembered of clients' ids, by instance and id. The embedded store knows ids by their hashes alone: what was copied from
//! there stands under the hash, in the name of no instance, and is looked for there until all of it is over.

use crate::rules::failure::Failure;
use crate::rules::value::Row;
use crate::sqlite::dedup::{Entry, Key, key};
use switchboard_core::digest::hex;
use switchboard_core::ids::InstanceNo;

/// The instance of ids that were copied from an embedded store: real ones count from 1.
pub(crate) const HASHED: InstanceNo = InstanceNo(0);
/// Reads rows for [`entry`].
pub(crate) const ALL: &str =
    "SELECT instance, client_id, content_digest, event, thread, at_ms, expires_at_ms FROM dedup";
/// Whether there are hashed ones.
pub(crate) const ANY_HASHED: &str = "SELECT EXISTS (SELECT 1 FROM dedup WHERE instance = 0)";

/// How a hashed id is written.
pub(crate) fn hashed(key: &Key) -> String {
    hex(key)
}

/// Where an instance's id stands if it was copied.
pub(crate) fn hash_of(instance: InstanceNo, client_id: &str) -> String {
    hashed(&key(instance, client_id))
}

/// A row of [`ALL`] as the embedded store has it.
pub(crate) fn entry(row: &dyn Row) -> Result<(Key, Entry), Failure> {
    let (instance, client_id) = (InstanceNo(row.get(0)?), row.get::<String>(1)?);
    let key = if instance == HASHED {
        unhex(&client_id).ok_or_else(|| Failure::Inconsistent("a hashed id is damaged".into()))?
    } else {
        key(instance, &client_id)
    };
    let entry = Entry {
        digest: row.get(2)?,
        event: row.get(3)?,
        thread: row.get(4)?,
        at_ms: row.get(5)?,
        expires_at_ms: row.get(6)?,
    };
    Ok((key, entry))
}

fn unhex(text: &str) -> Option<Key> {
    Some(u128::from_str_radix(text, 16).ok().filter(|_| text.len() == 32)?.to_be_bytes())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn hashed_ids_come_back() {
        for key in [[0; 16], [255; 16], key(InstanceNo(7), "an id")] {
            assert_eq!(unhex(&hashed(&key)), Some(key));
        }
        assert_eq!(unhex("ff"), None);
        assert_eq!(unhex(&"x".repeat(32)), None);
    }
}
