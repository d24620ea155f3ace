-- One row a record that Kafka has not confirmed yet. A confirmed one is deleted, so that what
-- is here is what is still to be sent. The columns can be read by a change-data-capture
-- router as well; the documentation of `outbox` says how.
CREATE TABLE idempotent_jobs.outbox (
    topic         text COLLATE "C" NOT NULL,
    -- The dedup key, or its digest where it is too long for an index: then `long_key` has it.
    key           text COLLATE "C" NOT NULL,
    long_key      text,
    -- The names of the fields that the key is made of.
    key_parts     text NOT NULL,
    event         text,
    -- The Kafka message key: records of equal ones keep their order.
    partition_key text COLLATE "C",
    -- NULL is a tombstone.
    payload       bytea,
    -- Further headers, in wire order, names beside values.
    header_names  text[] NOT NULL DEFAULT '{}',
    header_values bytea[] NOT NULL DEFAULT '{}',
    -- Which of the fixed number of parts of the outbox it belongs to: one relay owns a part at a time.
    shard         smallint NOT NULL,
    -- Drawn behind a lock that is held to commit, so that of one partition key the order of ids is the order of commit.
    id            bigint GENERATED ALWAYS AS IDENTITY,
    -- Whether it keeps the order of its partition key.
    ordered       boolean NOT NULL,
    -- Bytes, roughly: relays bound by it what they hold.
    size          integer NOT NULL,
    -- 'ready' may be sent; 'later' waits for `due_at`; 'failed' was set aside with `last_error`;
    -- 'held' lies behind such a one of its partition key.
    state         text NOT NULL DEFAULT 'ready' CHECK (state IN ('ready', 'later', 'failed', 'held')),
    due_at        timestamptz CHECK ((due_at IS NULL) = (state <> 'later')),
    -- Failures of this very record; trouble of the brokers is not counted.
    attempts      integer NOT NULL DEFAULT 0,
    last_error    text,
    enqueued_at   timestamptz NOT NULL DEFAULT pg_catalog.now(),
    -- When it was enqueued first, if it was sent before and is to be sent once more.
    first_at      timestamptz,
    PRIMARY KEY (topic, key)
) WITH (
    -- Rows come and go: what is dead has to leave before the next reader walks over it.
    autovacuum_vacuum_scale_factor = 0.01,
    autovacuum_vacuum_threshold = 10000,
    autovacuum_vacuum_insert_scale_factor = 0.1,
    autovacuum_vacuum_cost_delay = 0
);

-- What relays read, and how they delete.
CREATE UNIQUE INDEX outbox_ready ON idempotent_jobs.outbox (shard, id) WHERE state = 'ready';
CREATE INDEX outbox_later ON idempotent_jobs.outbox (due_at) WHERE state = 'later';
-- Those behind which others of their partition key wait; of that as much as an index takes.
CREATE INDEX outbox_troubled ON idempotent_jobs.outbox (shard, pg_catalog."left"(partition_key, 200), id)
    WHERE state <> 'ready' AND (attempts > 0 OR state = 'held');
CREATE INDEX outbox_failed ON idempotent_jobs.outbox (shard, pg_catalog."left"(partition_key, 200), id)
    WHERE state = 'failed';
CREATE INDEX outbox_held ON idempotent_jobs.outbox (shard, id) WHERE state = 'held';

-- Relays that are alive. `asleep`: it has nothing to do and wants to be woken by NOTIFY.
CREATE TABLE idempotent_jobs.relays (
    id          text COLLATE "C" PRIMARY KEY,
    asleep      boolean NOT NULL,
    alive_until timestamptz NOT NULL
);

-- Which relay sends the records of a shard, and until when unless it says so again.
CREATE TABLE idempotent_jobs.shards (
    shard       smallint PRIMARY KEY,
    owner       text,
    owned_until timestamptz
);

INSERT INTO idempotent_jobs.shards (shard) SELECT pg_catalog.generate_series(0, 31);

-- Answers of effects that are made once for a caller without Kafka, as an HTTP request with a
-- key of its own is. A row without an answer is a claim whose effect has not ended.
CREATE TABLE idempotent_jobs.answers (
    scope       text COLLATE "C" NOT NULL,
    key         text COLLATE "C" NOT NULL,
    fingerprint bytea NOT NULL,
    answer      bytea,
    answered_at timestamptz NOT NULL DEFAULT pg_catalog.now(),
    PRIMARY KEY (scope, key)
);

-- For those who delete old ones.
CREATE INDEX answers_at ON idempotent_jobs.answers (answered_at);

-- An effect that was dropped midway may have left writes behind, and nobody waits who could undo
-- them. So a claim without an answer is not committed, and nothing else of its transaction.
CREATE FUNCTION idempotent_jobs.refuse_unanswered() RETURNS trigger
LANGUAGE plpgsql SET search_path = pg_catalog, pg_temp AS $$
BEGIN
    IF EXISTS (SELECT FROM idempotent_jobs.answers
               WHERE scope = NEW.scope AND key = NEW.key AND answer IS NULL) THEN
        RAISE EXCEPTION 'an effect that is to happen once was dropped before its end, or ended the transaction: all of it is rolled back'
            USING ERRCODE = 'invalid_transaction_termination',
                  HINT = 'When a call of `once` is cancelled, roll the transaction back and call again.';
    END IF;
    RETURN NULL;
END
$$;

CREATE CONSTRAINT TRIGGER answered AFTER INSERT ON idempotent_jobs.answers
DEFERRABLE INITIALLY DEFERRED
FOR EACH ROW EXECUTE FUNCTION idempotent_jobs.refuse_unanswered();

-- Confirmed records that a relay was told to keep for a while, so that they can be sent again.
CREATE TABLE idempotent_jobs.sent (
    id            bigint PRIMARY KEY,
    topic         text COLLATE "C" NOT NULL,
    key           text COLLATE "C" NOT NULL,
    long_key      text,
    key_parts     text NOT NULL,
    event         text,
    partition_key text COLLATE "C",
    payload       bytea,
    header_names  text[] NOT NULL,
    header_values bytea[] NOT NULL,
    shard         smallint NOT NULL,
    ordered       boolean NOT NULL,
    size          integer NOT NULL,
    sent_at       timestamptz NOT NULL DEFAULT pg_catalog.now(),
    -- When it was enqueued first: so old is the key that it needs when it is sent once more.
    first_at      timestamptz NOT NULL DEFAULT pg_catalog.now()
);

CREATE INDEX sent_key ON idempotent_jobs.sent (topic, key);
CREATE INDEX sent_at ON idempotent_jobs.sent (sent_at);
