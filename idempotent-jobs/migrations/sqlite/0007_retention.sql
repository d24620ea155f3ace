-- Whether another group or topic was ever allowed to use the job's name: its keys are then everybody's, and nobody
-- knows alone when the last of them may go. Keys of such a job are kept.
ALTER TABLE idempotent_jobs_jobs ADD COLUMN shared INTEGER NOT NULL DEFAULT 0;

-- When each group's old keys were last looked for, so that its workers share the work.
CREATE TABLE idempotent_jobs_sweeps (
    "group"  TEXT NOT NULL PRIMARY KEY,
    swept_at TEXT NOT NULL
) STRICT, WITHOUT ROWID;
