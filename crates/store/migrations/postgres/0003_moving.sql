-- A store on the move; meanings stand in migrations/sqlite.
CREATE TABLE moving (
    id    BIGINT PRIMARY KEY CHECK (id = 1),
    state TEXT   NOT NULL CHECK (state IN ('arriving', 'left')),
    other TEXT   NOT NULL COLLATE "C",
    at_ms BIGINT NOT NULL
);
