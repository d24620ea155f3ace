-- What is to be remembered of messages that failed, or that may have killed their process: nothing else has a
-- row here. It goes with the transaction that settles its message; those below the position at which a
-- partition is next assigned are swept.
CREATE TABLE idempotent_jobs.attempts (
    "group"    text NOT NULL,
    topic      text NOT NULL,
    partition  integer NOT NULL,
    "offset"   bigint NOT NULL,
    job        text COLLATE "C" NOT NULL,
    -- SHA-256 of the message: a topic that is made anew has other messages at the same coordinates.
    digest     bytea NOT NULL,
    -- Attempts that failed and count, and processes that died in one that ran by itself.
    failures   integer NOT NULL DEFAULT 0,
    deaths     integer NOT NULL DEFAULT 0,
    -- The owner that runs it by itself right now: found by another one, it says that this one died of it.
    runner     text,
    -- Not run before.
    due_at     timestamptz NOT NULL DEFAULT pg_catalog.clock_timestamp(),
    last_error text,
    changed_at timestamptz NOT NULL DEFAULT pg_catalog.now(),
    PRIMARY KEY ("group", topic, partition, "offset", job)
);

-- Who works on a partition, from before its first message runs until it lets go. Whoever is assigned a partition
-- and finds another's row knows that this one died.
CREATE TABLE idempotent_jobs.owners (
    "group"    text NOT NULL,
    topic      text NOT NULL,
    partition  integer NOT NULL,
    -- A process, and one of its assignments.
    owner      text NOT NULL,
    -- The first offset that was read in it, and how many owners before it died in a row, of what may be one message.
    position   bigint NOT NULL,
    deaths     integer NOT NULL,
    since      timestamptz NOT NULL DEFAULT pg_catalog.now(),
    PRIMARY KEY ("group", topic, partition)
);

-- Dead letters whose run is under way, that failed and are run again, or that processes died of: nothing else has a row here. Not in `attempts`,
-- since a letter lies below every position, and whoever owns its partition has nothing to do with its run.
CREATE TABLE idempotent_jobs.redrives (
    letter     bigint PRIMARY KEY REFERENCES idempotent_jobs.dead_letters ON DELETE CASCADE,
    -- The process that runs it. Found by another one that could lock the letter, and again some seconds later, it says
    -- that this one died of it.
    runner     text,
    deaths     integer NOT NULL DEFAULT 0,
    -- Attempts that failed and count since it was requested.
    failures   integer NOT NULL DEFAULT 0,
    -- Not run before.
    due_at     timestamptz NOT NULL DEFAULT pg_catalog.clock_timestamp(),
    -- When its run was noted, and when another process first found it free since.
    changed_at timestamptz NOT NULL DEFAULT pg_catalog.clock_timestamp(),
    free_at    timestamptz
);
