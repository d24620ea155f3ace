-- How far each group has settled each partition, written before Kafka is told: what is below "offset" is done, or dead
-- with a letter, in this very database. So a committed offset above it says that the database lost history.
CREATE TABLE idempotent_jobs.watermarks (
    "group"    text COLLATE "C" NOT NULL,
    topic      text COLLATE "C" NOT NULL,
    partition  integer NOT NULL,
    -- Kafka's own id of the topic: one that was made anew has another. NULL where brokers give none.
    topic_id   text COLLATE "C",
    -- Where the group began to read it.
    began      bigint NOT NULL,
    "offset"   bigint NOT NULL,
    -- Keys of messages below it may have been deleted.
    purged_to  bigint NOT NULL DEFAULT 0,
    since      timestamptz NOT NULL DEFAULT pg_catalog.now(),
    updated_at timestamptz NOT NULL DEFAULT pg_catalog.now(),
    PRIMARY KEY ("group", topic, partition)
) WITH (fillfactor = 50);
