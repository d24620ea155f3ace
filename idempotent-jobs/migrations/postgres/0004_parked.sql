-- Lanes of jobs that keep later messages behind one that died. While a lane has its row, its job runs
-- nothing of it but its head, and what comes later is a dead letter with the state 'parked'.
-- Whoever adds a letter to a lane, takes one from it or lets it go holds the row's lock.
CREATE TABLE idempotent_jobs.parked (
    id          bigint GENERATED ALWAYS AS IDENTITY PRIMARY KEY,
    "group"     text NOT NULL,
    topic       text NOT NULL,
    partition   integer NOT NULL,
    job         text COLLATE "C" NOT NULL,
    -- SHA-256 of the Kafka message key; zeros where the whole partition is one lane.
    lane        bytea NOT NULL,
    -- The letter behind which the others wait: 0 only within the transaction that writes it.
    head        bigint NOT NULL DEFAULT 0,
    -- The last place that was given.
    last        bigint NOT NULL DEFAULT 0,
    -- How many letters are parked.
    waiting     integer NOT NULL DEFAULT 0,
    since       timestamptz NOT NULL DEFAULT pg_catalog.now(),
    -- Since when no more are taken in; NULL: there is room.
    full_since  timestamptz,
    UNIQUE ("group", topic, partition, job, lane)
);

-- Who is next.
CREATE INDEX dead_letters_parked ON idempotent_jobs.dead_letters (lane, place) WHERE state = 'parked';
