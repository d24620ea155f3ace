-- One row a claim, written in the transaction of the job's effects and never updated.
-- It must not be partitioned by time: the unique index would then contain the time,
-- and a key used at another instant would be a new row.
CREATE TABLE idempotent_jobs.processed (
    job          text COLLATE "C" NOT NULL,
    key          text COLLATE "C" NOT NULL,
    state        text NOT NULL DEFAULT 'done' CHECK (state IN ('done', 'dead')),
    fingerprint  bytea NOT NULL,
    scheme       text NOT NULL,
    "group"      text NOT NULL,
    topic        text NOT NULL,
    partition    integer NOT NULL,
    "offset"     bigint NOT NULL,
    processed_at timestamptz NOT NULL DEFAULT pg_catalog.now(),
    PRIMARY KEY (job, key)
) WITH (
    -- Insert-only: pages may be full, and vacuum has to come by for freezing and the
    -- visibility map long before a fifth of a large table is new.
    fillfactor = 100,
    autovacuum_vacuum_insert_scale_factor = 0.05,
    autovacuum_analyze_scale_factor = 0.05
);

-- What each job declared at its first start.
CREATE TABLE idempotent_jobs.jobs (
    name          text COLLATE "C" PRIMARY KEY,
    "group"       text NOT NULL,
    topic         text NOT NULL,
    key_form      text NOT NULL,
    scheme        text NOT NULL,
    registered_at timestamptz NOT NULL DEFAULT pg_catalog.now(),
    updated_at    timestamptz NOT NULL DEFAULT pg_catalog.now()
);

-- A transaction whose bare connection was lent to a handler holds a row here. Its trigger
-- runs at COMMIT and raises unless the worker, closing the transaction, has just named the
-- row's token: whoever else commits it gets an error, and nothing is stored.
CREATE TABLE idempotent_jobs.sealed (token text COLLATE "C" NOT NULL);

CREATE FUNCTION idempotent_jobs.refuse_foreign_commit() RETURNS trigger
LANGUAGE plpgsql SET search_path = pg_catalog, pg_temp AS $$
BEGIN
    IF current_setting('idempotent_jobs.seal', true) IS DISTINCT FROM NEW.token THEN
        RAISE EXCEPTION 'the transaction of a job can only be committed by its worker: all of it is rolled back'
            USING ERRCODE = 'invalid_transaction_termination',
                  HINT = 'Remove the COMMIT (or SET CONSTRAINTS ALL IMMEDIATE) from the handler; a part that may fail belongs in a savepoint, tx.begin().';
    END IF;
    RETURN NULL;
END
$$;

CREATE CONSTRAINT TRIGGER sealed AFTER INSERT ON idempotent_jobs.sealed
DEFERRABLE INITIALLY DEFERRED
FOR EACH ROW EXECUTE FUNCTION idempotent_jobs.refuse_foreign_commit();
