-- Nodes that share a store. One node alone uses neither table, but the rules are the same for both backends.

-- A node lives as long as seen_ms, in the store's time, is not long ago.
CREATE TABLE nodes (
    node    INTEGER NOT NULL PRIMARY KEY,
    seen_ms INTEGER NOT NULL,
    rings   INTEGER NOT NULL -- 1: it could ring the others when it last said
) STRICT, WITHOUT ROWID;

-- What only one node does at a time. The fence grows with every holder.
CREATE TABLE leases (
    name     TEXT NOT NULL PRIMARY KEY,
    holder   INTEGER NOT NULL,
    fence    INTEGER NOT NULL,
    until_ms INTEGER NOT NULL
) STRICT, WITHOUT ROWID;
