-- What is to be remembered of messages that failed, or that may have killed their process: nothing else has a
-- row here. It goes with the transaction that settles its message; those below the position at which a
-- partition is next assigned are swept.
CREATE TABLE idempotent_jobs_attempts (
    "group"     TEXT NOT NULL,
    topic       TEXT NOT NULL,
    "partition" INTEGER NOT NULL,
    "offset"    INTEGER NOT NULL,
    job         TEXT NOT NULL,
    -- SHA-256 of the message: a topic that is made anew has other messages at the same coordinates.
    digest      BLOB NOT NULL,
    -- Attempts that failed and count, and processes that died in one that ran by itself.
    failures    INTEGER NOT NULL DEFAULT 0,
    deaths      INTEGER NOT NULL DEFAULT 0,
    -- The owner that runs it by itself right now: found by another one, it says that this one died of it.
    runner      TEXT,
    -- Not run before: milliseconds since the Unix epoch.
    due_at      INTEGER NOT NULL DEFAULT 0,
    last_error  TEXT,
    changed_at  TEXT NOT NULL DEFAULT (strftime('%Y-%m-%dT%H:%M:%fZ', 'now')),
    PRIMARY KEY ("group", topic, "partition", "offset", job)
) STRICT;

-- Who works on a partition, from before its first message runs until it lets go. Whoever is assigned a partition
-- and finds another's row knows that this one died.
CREATE TABLE idempotent_jobs_owners (
    "group"     TEXT NOT NULL,
    topic       TEXT NOT NULL,
    "partition" INTEGER NOT NULL,
    -- A process, and one of its assignments.
    owner       TEXT NOT NULL,
    -- The first offset that was read in it, and how many owners before it died in a row, of what may be one message.
    position    INTEGER NOT NULL,
    deaths      INTEGER NOT NULL,
    since       TEXT NOT NULL DEFAULT (strftime('%Y-%m-%dT%H:%M:%fZ', 'now')),
    PRIMARY KEY ("group", topic, "partition")
) STRICT;

-- Dead letters whose run is under way, that failed and are run again, or that processes died of: nothing else has a row here. Not in `attempts`,
-- since a letter lies below every position, and whoever owns its partition has nothing to do with its run.
CREATE TABLE idempotent_jobs_redrives (
    letter     INTEGER PRIMARY KEY REFERENCES idempotent_jobs_dead_letters ON DELETE CASCADE,
    -- The process that runs it. Found by another one that could lock the letter, and again some seconds later, it says
    -- that this one died of it.
    runner     TEXT,
    deaths     INTEGER NOT NULL DEFAULT 0,
    -- Attempts that failed and count since it was requested.
    failures   INTEGER NOT NULL DEFAULT 0,
    -- Not run before: milliseconds since the Unix epoch.
    due_at     INTEGER NOT NULL DEFAULT 0,
    -- When its run was noted, and when another process first found it free since: milliseconds since the Unix epoch.
    changed_at INTEGER NOT NULL,
    free_at    INTEGER
) STRICT;
