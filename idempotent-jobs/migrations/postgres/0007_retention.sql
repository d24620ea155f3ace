-- Whether another group or topic was ever allowed to use the job's name: its keys are then everybody's, and nobody
-- knows alone when the last of them may go. Keys of such a job are kept.
ALTER TABLE idempotent_jobs.jobs ADD COLUMN shared boolean NOT NULL DEFAULT false;

-- When each group's old keys were last looked for, so that its workers share the work.
CREATE TABLE idempotent_jobs.sweeps (
    "group"  text COLLATE "C" PRIMARY KEY,
    swept_at timestamptz NOT NULL
);
