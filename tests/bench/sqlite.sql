-- What the jobs write: plain numbers, and no unique index but the primary key.
CREATE TABLE charges (
    id           INTEGER PRIMARY KEY,
    order_id     INTEGER NOT NULL,
    amount_cents INTEGER NOT NULL
) STRICT;
