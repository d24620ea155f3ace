-- Messages that cannot be processed, whole, so that the worker may go on behind them. One row is written
-- before the offset of its message moves, and never deleted here. Unless it has no key, or one that is another
-- message's, `idempotent_jobs_processed` has a row of it with state 'dead'. A redrive makes that one 'done': the only update there.
CREATE TABLE idempotent_jobs_dead_letters (
    id            INTEGER PRIMARY KEY AUTOINCREMENT,
    -- NULL: no job takes the message.
    job           TEXT,
    "group"       TEXT NOT NULL,
    topic         TEXT NOT NULL,
    "partition"   INTEGER NOT NULL,
    "offset"      INTEGER NOT NULL,
    -- SHA-256 of the message: a topic that is made anew has other messages at the same coordinates.
    digest        BLOB NOT NULL,
    -- The message, byte for byte. NULL is null, and empty is not.
    message_key   BLOB,
    payload       BLOB,
    -- In wire order: a JSON array of [name, value in hex or null].
    headers       TEXT NOT NULL,
    -- Milliseconds since the Unix epoch.
    "timestamp"   INTEGER,
    -- The dedup key as `processed` holds it, and whole where that is its digest: all NULL when there is none.
    key           TEXT,
    long_key      TEXT,
    fingerprint   BLOB,
    scheme        TEXT,
    -- Which rule it broke, what was found, and how often its job was entered.
    reason        TEXT NOT NULL,
    error         TEXT NOT NULL,
    attempts      INTEGER NOT NULL,
    -- 'open' waits for a person; 'requested' for a worker that runs it again; 'redriven' was run, or
    -- found done; 'skipped' was set aside for good; 'parked' waits behind another one of its lane.
    state         TEXT NOT NULL DEFAULT 'open' CHECK (state IN ('open', 'requested', 'redriven', 'skipped', 'parked')),
    -- The lane in which it waits, or whose head it is, by its number in `parked`, and its place there. A lane
    -- that was let go leaves its number here.
    lane          INTEGER,
    place         INTEGER,
    died_at       TEXT NOT NULL DEFAULT (strftime('%Y-%m-%dT%H:%M:%fZ', 'now')),
    changed_at    TEXT NOT NULL DEFAULT (strftime('%Y-%m-%dT%H:%M:%fZ', 'now')),
    -- Who asked for the last change; NULL is a worker.
    changed_by    TEXT,
    CHECK (state <> 'parked' OR lane IS NOT NULL AND place IS NOT NULL),
    CHECK ((key IS NULL) = (fingerprint IS NULL) AND (key IS NULL) = (scheme IS NULL) AND (key IS NULL OR job IS NOT NULL))
) STRICT;

-- One for each content of a key; without a key, one for each message and job, which an assignment looks for.
CREATE UNIQUE INDEX idempotent_jobs_dead_letters_keyed ON idempotent_jobs_dead_letters (job, key, fingerprint)
    WHERE key IS NOT NULL;
CREATE UNIQUE INDEX idempotent_jobs_dead_letters_unkeyed ON idempotent_jobs_dead_letters
    ("group", topic, "partition", "offset", digest, COALESCE(job, '')) WHERE key IS NULL;
-- What workers ask for every second, and what a person looks at.
CREATE INDEX idempotent_jobs_dead_letters_requested ON idempotent_jobs_dead_letters (job, topic, id) WHERE state = 'requested';
CREATE INDEX idempotent_jobs_dead_letters_open ON idempotent_jobs_dead_letters (id) WHERE state = 'open';

-- What became of each after it was written.
CREATE TABLE idempotent_jobs_dead_letter_history (
    id     INTEGER PRIMARY KEY AUTOINCREMENT,
    letter INTEGER NOT NULL REFERENCES idempotent_jobs_dead_letters ON DELETE CASCADE,
    -- 'requested', 'redriven', 'skipped', or 'open' when it died again.
    state  TEXT NOT NULL,
    at     TEXT NOT NULL DEFAULT (strftime('%Y-%m-%dT%H:%M:%fZ', 'now')),
    -- NULL is a worker.
    "by"   TEXT,
    detail TEXT
) STRICT;

CREATE INDEX idempotent_jobs_dead_letter_history_letter ON idempotent_jobs_dead_letter_history (letter, id);
