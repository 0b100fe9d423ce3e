-- A store on the move from one place to another: no hub opens it while there is a row.
CREATE TABLE moving (
    id    INTEGER PRIMARY KEY CHECK (id = 1),
    state TEXT    NOT NULL CHECK (state IN ('arriving', 'left')), -- being filled; or copied away, and in use there
    other TEXT    NOT NULL, -- from where, or to where; without a password
    at_ms INTEGER NOT NULL
) STRICT;
