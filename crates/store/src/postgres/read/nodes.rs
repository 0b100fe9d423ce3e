//! What nodes tell each other through the store: how far it is, what has moved, who lives.

use crate::rules::failure::Failure;
use crate::rules::value::Row;
use switchboard_core::port::store::{Position, Pulse};

/// How far the store is.
pub(crate) const POSITION: &str = "SELECT commit_no, directory, version, notice, digest FROM head";

/// A row of [`POSITION`].
pub(crate) fn position(row: &dyn Row) -> Result<Position, Failure> {
    let number = |at| row.get::<i64>(at).map(i64::cast_unsigned);
    Ok(Position { commit: number(0)?, directory: number(1)?, version: number(2)?, notice: row.get(3)? })
}

/// Behind [`super::stream::STREAMS`]: those that have moved on from where the caller knows them.
pub(crate) const GROWN: &str = "LEFT JOIN unnest($1::bigint[], $2::bigint[]) AS k (id, head) ON k.id = s.id
    WHERE c.a > k.head OR k.id IS NULL ORDER BY s.id";

/// Instances with a notice behind a number.
pub(crate) const NOTICED: &str = "SELECT DISTINCT instance FROM notices WHERE id > $1";

/// Notes that node $1 lives and whether it rings ($2), keeps lease $3 for $6 ms if it holds it with fence $4, and tells what
/// the others said within $5 ms.
pub(crate) const BEAT: &str = "
    WITH now AS (SELECT (extract(epoch FROM clock_timestamp()) * 1000)::bigint AS ms),
    beat AS (
        INSERT INTO nodes (node, seen_ms, rings) SELECT $1, ms, $2 FROM now
        ON CONFLICT (node) DO UPDATE SET seen_ms = excluded.seen_ms, rings = excluded.rings
    ),
    kept AS (
        UPDATE leases SET until_ms = ms + $6 FROM now
        WHERE name = $3 AND holder = $1 AND fence = $4 RETURNING 1
    )
    SELECT EXISTS (SELECT 1 FROM kept),
        NOT EXISTS (SELECT 1 FROM leases WHERE name = $3 AND until_ms > ms AND holder <> $1),
        NOT EXISTS (SELECT 1 FROM nodes WHERE seen_ms > ms - $5 AND node <> $1 AND rings = 0) AND $2 = 1
    FROM now";

/// A row of [`BEAT`].
pub(crate) fn pulse(row: &dyn Row) -> Result<Pulse, Failure> {
    let yes = |at| row.get::<bool>(at);
    Ok(Pulse { kept: yes(0)?, free: yes(1)?, all_ring: yes(2)? })
}
