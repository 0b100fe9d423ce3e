-- Nodes that share a store; tables and columns are those of migrations/sqlite.

-- A node lives as long as seen_ms, in the store's time, is not long ago.
CREATE TABLE nodes (
    node    BIGINT NOT NULL PRIMARY KEY,
    seen_ms BIGINT NOT NULL,
    rings   BIGINT NOT NULL -- 1: it could ring the others when it last said
);

-- What only one node does at a time. The fence grows with every holder.
CREATE TABLE leases (
    name     TEXT NOT NULL COLLATE "C" PRIMARY KEY,
    holder   BIGINT NOT NULL,
    fence    BIGINT NOT NULL,
    until_ms BIGINT NOT NULL
);
