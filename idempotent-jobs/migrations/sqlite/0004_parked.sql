-- Lanes of jobs that keep later messages behind one that died. While a lane has its row, its job runs
-- nothing of it but its head, and what comes later is a dead letter with the state 'parked'.
-- Whoever adds a letter to a lane, takes one from it or lets it go holds the write lock.
CREATE TABLE idempotent_jobs_parked (
    id          INTEGER PRIMARY KEY AUTOINCREMENT,
    "group"     TEXT NOT NULL,
    topic       TEXT NOT NULL,
    "partition" INTEGER NOT NULL,
    job         TEXT NOT NULL,
    -- SHA-256 of the Kafka message key; zeros where the whole partition is one lane.
    lane        BLOB NOT NULL,
    -- The letter behind which the others wait: 0 only within the transaction that writes it.
    head        INTEGER NOT NULL DEFAULT 0,
    -- The last place that was given.
    last        INTEGER NOT NULL DEFAULT 0,
    -- How many letters are parked.
    waiting     INTEGER NOT NULL DEFAULT 0,
    since       TEXT NOT NULL DEFAULT (strftime('%Y-%m-%dT%H:%M:%fZ', 'now')),
    -- Since when no more are taken in; NULL: there is room.
    full_since  TEXT,
    UNIQUE ("group", topic, "partition", job, lane)
) STRICT;

-- Who is next.
CREATE INDEX idempotent_jobs_dead_letters_parked ON idempotent_jobs_dead_letters (lane, place) WHERE state = 'parked';
