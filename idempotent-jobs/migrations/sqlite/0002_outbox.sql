-- One row a record that Kafka has not confirmed yet. A confirmed one is deleted, so that what
-- is here is what is still to be sent.
CREATE TABLE idempotent_jobs_outbox (
    -- One writer at a time: the order of ids is the order of commit. Never given twice.
    id            INTEGER PRIMARY KEY AUTOINCREMENT,
    topic         TEXT NOT NULL,
    -- The dedup key, or its digest where it is too long for an index: then `long_key` has it.
    key           TEXT NOT NULL,
    long_key      TEXT,
    -- The names of the fields that the key is made of.
    key_parts     TEXT NOT NULL,
    event         TEXT,
    -- The Kafka message key: records of equal ones keep their order.
    partition_key TEXT,
    -- NULL is a tombstone.
    payload       BLOB,
    -- Further headers, in wire order: a JSON array of [name, value in hex or null].
    headers       TEXT NOT NULL DEFAULT '[]',
    -- Which of the fixed number of parts of the outbox it belongs to: one relay owns a part at a time.
    shard         INTEGER NOT NULL,
    -- Whether it keeps the order of its partition key.
    ordered       INTEGER NOT NULL,
    -- Bytes, roughly: relays bound by it what they hold.
    size          INTEGER NOT NULL,
    -- 'ready' may be sent; 'later' waits for `due_at`; 'failed' was set aside with `last_error`;
    -- 'held' lies behind such a one of its partition key.
    state         TEXT NOT NULL DEFAULT 'ready' CHECK (state IN ('ready', 'later', 'failed', 'held')),
    due_at        TEXT CHECK ((due_at IS NULL) = (state <> 'later')),
    -- Failures of this very record; trouble of the brokers is not counted.
    attempts      INTEGER NOT NULL DEFAULT 0,
    last_error    TEXT,
    enqueued_at   TEXT NOT NULL DEFAULT (strftime('%Y-%m-%dT%H:%M:%fZ', 'now')),
    -- When it was enqueued first, if it was sent before and is to be sent once more.
    first_at      TEXT
) STRICT;

CREATE UNIQUE INDEX idempotent_jobs_outbox_key ON idempotent_jobs_outbox (topic, key);
-- What relays read, and how they delete.
CREATE UNIQUE INDEX idempotent_jobs_outbox_ready ON idempotent_jobs_outbox (shard, id) WHERE state = 'ready';
CREATE INDEX idempotent_jobs_outbox_later ON idempotent_jobs_outbox (due_at) WHERE state = 'later';
-- Those behind which others of their partition key wait.
CREATE INDEX idempotent_jobs_outbox_troubled ON idempotent_jobs_outbox (topic, partition_key, id)
    WHERE state <> 'ready' AND (attempts > 0 OR state = 'held');
CREATE INDEX idempotent_jobs_outbox_failed ON idempotent_jobs_outbox (topic, partition_key, id) WHERE state = 'failed';
CREATE INDEX idempotent_jobs_outbox_held ON idempotent_jobs_outbox (shard, id) WHERE state = 'held';

-- Relays that are alive. PostgreSQL's wake each other by NOTIFY, which SQLite does not have.
CREATE TABLE idempotent_jobs_relays (
    id          TEXT NOT NULL PRIMARY KEY,
    asleep      INTEGER NOT NULL,
    alive_until TEXT NOT NULL
) STRICT, WITHOUT ROWID;

-- Which relay sends the records of a shard, and until when unless it says so again.
CREATE TABLE idempotent_jobs_shards (
    shard       INTEGER NOT NULL PRIMARY KEY,
    owner       TEXT,
    owned_until TEXT
) STRICT, WITHOUT ROWID;

INSERT INTO idempotent_jobs_shards (shard)
WITH RECURSIVE shards (shard) AS (SELECT 0 UNION ALL SELECT shard + 1 FROM shards WHERE shard < 31)
SELECT shard FROM shards;

-- Answers of effects that are made once for a caller without Kafka, as an HTTP request with a
-- key of its own is. A row without an answer is a claim whose effect has not ended. PostgreSQL
-- refuses to commit one; here the driver undoes it.
CREATE TABLE idempotent_jobs_answers (
    scope       TEXT NOT NULL,
    key         TEXT NOT NULL,
    fingerprint BLOB NOT NULL,
    answer      BLOB,
    answered_at TEXT NOT NULL DEFAULT (strftime('%Y-%m-%dT%H:%M:%fZ', 'now')),
    PRIMARY KEY (scope, key)
) STRICT, WITHOUT ROWID;

-- For those who delete old ones.
CREATE INDEX idempotent_jobs_answers_at ON idempotent_jobs_answers (answered_at);

-- Confirmed records that a relay was told to keep for a while, so that they can be sent again.
CREATE TABLE idempotent_jobs_sent (
    id            INTEGER PRIMARY KEY,
    topic         TEXT NOT NULL,
    key           TEXT NOT NULL,
    long_key      TEXT,
    key_parts     TEXT NOT NULL,
    event         TEXT,
    partition_key TEXT,
    payload       BLOB,
    headers       TEXT NOT NULL,
    shard         INTEGER NOT NULL,
    ordered       INTEGER NOT NULL,
    size          INTEGER NOT NULL,
    sent_at       TEXT NOT NULL DEFAULT (strftime('%Y-%m-%dT%H:%M:%fZ', 'now')),
    -- When it was enqueued first: so old is the key that it needs when it is sent once more.
    first_at      TEXT NOT NULL DEFAULT (strftime('%Y-%m-%dT%H:%M:%fZ', 'now'))
) STRICT;

CREATE INDEX idempotent_jobs_sent_key ON idempotent_jobs_sent (topic, key);
CREATE INDEX idempotent_jobs_sent_at ON idempotent_jobs_sent (sent_at);
