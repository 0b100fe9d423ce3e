//! Full-text search over the index beside the events.

/// Events of streams that hold all words and that a reader may see, newest first. A reader of NULL sees all.
pub(crate) const SEARCH: &str = "
    SELECT e.id FROM search s JOIN events e ON e.id = s.event
    WHERE s.words @@ $1::text::tsquery AND e.id >> 40 = ANY($2)
        AND ($3::bigint IS NULL OR e.to_instance IS NULL OR e.to_instance = $3 OR e.from_instance = $3)
    ORDER BY e.at_ms DESC, e.id DESC LIMIT $4";
