-- How far each group has settled each partition, written before Kafka is told: what is below "offset" is done, or dead
-- with a letter, in this very database. So a committed offset above it says that the database lost history.
CREATE TABLE idempotent_jobs_watermarks (
    "group"     TEXT NOT NULL,
    topic       TEXT NOT NULL,
    "partition" INTEGER NOT NULL,
    -- Kafka's own id of the topic: one that was made anew has another. NULL where brokers give none.
    topic_id    TEXT,
    -- Where the group began to read it.
    began       INTEGER NOT NULL,
    "offset"    INTEGER NOT NULL,
    -- Keys of messages below it may have been deleted.
    purged_to   INTEGER NOT NULL DEFAULT 0,
    since       TEXT NOT NULL DEFAULT (strftime('%Y-%m-%dT%H:%M:%fZ', 'now')),
    updated_at  TEXT NOT NULL DEFAULT (strftime('%Y-%m-%dT%H:%M:%fZ', 'now')),
    PRIMARY KEY ("group", topic, "partition")
) STRICT, WITHOUT ROWID;
