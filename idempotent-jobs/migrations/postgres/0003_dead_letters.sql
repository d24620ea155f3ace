-- Messages that cannot be processed, whole, so that the worker may go on behind them. One row is written
-- before the offset of its message moves, and never deleted here. Unless it has no key, or one that is another
-- message's, `processed` has a row of it with state 'dead'. A redrive makes that one 'done': the only update there.
CREATE TABLE idempotent_jobs.dead_letters (
    id            bigint GENERATED ALWAYS AS IDENTITY PRIMARY KEY,
    -- NULL: no job takes the message.
    job           text COLLATE "C",
    "group"       text NOT NULL,
    topic         text NOT NULL,
    partition     integer NOT NULL,
    "offset"      bigint NOT NULL,
    -- SHA-256 of the message: a topic that is made anew has other messages at the same coordinates.
    digest        bytea NOT NULL,
    -- The message, byte for byte. NULL is null, and empty is not.
    message_key   bytea,
    payload       bytea,
    -- In wire order, names beside values.
    header_names  text[] NOT NULL,
    header_values bytea[] NOT NULL,
    -- Milliseconds since the Unix epoch.
    "timestamp"   bigint,
    -- The dedup key as `processed` holds it, and whole where that is its digest: all NULL when there is none.
    key           text COLLATE "C",
    long_key      text,
    fingerprint   bytea,
    scheme        text,
    -- Which rule it broke, what was found, and how often its job was entered.
    reason        text NOT NULL,
    error         text NOT NULL,
    attempts      integer NOT NULL,
    -- 'open' waits for a person; 'requested' for a worker that runs it again; 'redriven' was run, or
    -- found done; 'skipped' was set aside for good; 'parked' waits behind another one of its lane.
    state         text NOT NULL DEFAULT 'open' CHECK (state IN ('open', 'requested', 'redriven', 'skipped', 'parked')),
    -- The lane in which it waits, or whose head it is, by its number in `parked`, and its place there. A lane
    -- that was let go leaves its number here.
    lane          bigint,
    place         bigint,
    died_at       timestamptz NOT NULL DEFAULT pg_catalog.now(),
    changed_at    timestamptz NOT NULL DEFAULT pg_catalog.now(),
    -- Who asked for the last change; NULL is a worker.
    changed_by    text,
    CHECK (state <> 'parked' OR lane IS NOT NULL AND place IS NOT NULL),
    CHECK ((key IS NULL) = (fingerprint IS NULL) AND (key IS NULL) = (scheme IS NULL) AND (key IS NULL OR job IS NOT NULL))
);

-- One for each content of a key; without a key, one for each message and job, which an assignment looks for.
CREATE UNIQUE INDEX dead_letters_keyed ON idempotent_jobs.dead_letters (job, key, fingerprint) WHERE key IS NOT NULL;
CREATE UNIQUE INDEX dead_letters_unkeyed ON idempotent_jobs.dead_letters
    ("group", topic, partition, "offset", digest, (COALESCE(job, ''))) WHERE key IS NULL;
-- What workers ask for every second, and what a person looks at.
CREATE INDEX dead_letters_requested ON idempotent_jobs.dead_letters (job, topic, id) WHERE state = 'requested';
CREATE INDEX dead_letters_open ON idempotent_jobs.dead_letters (id) WHERE state = 'open';

-- What became of each after it was written.
CREATE TABLE idempotent_jobs.dead_letter_history (
    id      bigint GENERATED ALWAYS AS IDENTITY PRIMARY KEY,
    letter  bigint NOT NULL REFERENCES idempotent_jobs.dead_letters ON DELETE CASCADE,
    -- 'requested', 'redriven', 'skipped', or 'open' when it died again.
    state   text NOT NULL,
    at      timestamptz NOT NULL DEFAULT pg_catalog.now(),
    -- NULL is a worker.
    by      text,
    detail  text
);

CREATE INDEX dead_letter_history_letter ON idempotent_jobs.dead_letter_history (letter, id);
