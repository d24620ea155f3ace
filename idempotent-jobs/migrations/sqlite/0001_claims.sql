-- One row a claim, written in the transaction of the job's effects and never updated.
-- SQLite compares text byte by byte unless told otherwise.
CREATE TABLE idempotent_jobs_processed (
    job          TEXT NOT NULL,
    key          TEXT NOT NULL,
    state        TEXT NOT NULL DEFAULT 'done' CHECK (state IN ('done', 'dead')),
    fingerprint  BLOB NOT NULL,
    scheme       TEXT NOT NULL,
    "group"      TEXT NOT NULL,
    topic        TEXT NOT NULL,
    "partition"  INTEGER NOT NULL,
    "offset"     INTEGER NOT NULL,
    processed_at TEXT NOT NULL DEFAULT (strftime('%Y-%m-%dT%H:%M:%fZ', 'now')),
    PRIMARY KEY (job, key)
) STRICT, WITHOUT ROWID;

-- What each job declared at its first start.
CREATE TABLE idempotent_jobs_jobs (
    name          TEXT NOT NULL PRIMARY KEY,
    "group"       TEXT NOT NULL,
    topic         TEXT NOT NULL,
    key_form      TEXT NOT NULL,
    scheme        TEXT NOT NULL,
    registered_at TEXT NOT NULL DEFAULT (strftime('%Y-%m-%dT%H:%M:%fZ', 'now')),
    updated_at    TEXT NOT NULL DEFAULT (strftime('%Y-%m-%dT%H:%M:%fZ', 'now'))
) STRICT, WITHOUT ROWID;

-- PostgreSQL has a table `sealed` here. SQLite needs none: a commit hook of each
-- connection turns every COMMIT but the worker's own into a ROLLBACK.
