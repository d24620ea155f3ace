-- One job a transaction: the four statements that the twin sends. 62 bits never meet again.
\set order_id random(0, 4611686018427387903)
\set partition random(0, 7)
\set offset random(0, 1000000)
BEGIN;
INSERT INTO idempotent_jobs.processed (job, key, fingerprint, scheme, "group", topic, partition, "offset") VALUES ('charge', '[' || :order_id || ',"charge"]', '\x2c26b46b68ffc68ff99b453c1d30413413422d706483bfa0f98a5e886266e7ae', 'json-1', 'pgbench', 'bench-single', :partition, :offset) ON CONFLICT (job, key) DO NOTHING;
INSERT INTO charges (order_id, amount_cents) VALUES (:order_id, :offset);
COMMIT;
