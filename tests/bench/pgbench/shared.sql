-- A hundred jobs a transaction: one claim of many rows, then an effect each. 62 bits never meet again.
\set k0 random(0, 4611686018427387903)
\set k1 random(0, 4611686018427387903)
\set k2 random(0, 4611686018427387903)
\set k3 random(0, 4611686018427387903)
\set k4 random(0, 4611686018427387903)
\set k5 random(0, 4611686018427387903)
\set k6 random(0, 4611686018427387903)
\set k7 random(0, 4611686018427387903)
\set k8 random(0, 4611686018427387903)
\set k9 random(0, 4611686018427387903)
\set k10 random(0, 4611686018427387903)
\set k11 random(0, 4611686018427387903)
\set k12 random(0, 4611686018427387903)
\set k13 random(0, 4611686018427387903)
\set k14 random(0, 4611686018427387903)
\set k15 random(0, 4611686018427387903)
\set k16 random(0, 4611686018427387903)
\set k17 random(0, 4611686018427387903)
\set k18 random(0, 4611686018427387903)
\set k19 random(0, 4611686018427387903)
\set k20 random(0, 4611686018427387903)
\set k21 random(0, 4611686018427387903)
\set k22 random(0, 4611686018427387903)
\set k23 random(0, 4611686018427387903)
\set k24 random(0, 4611686018427387903)
\set k25 random(0, 4611686018427387903)
\set k26 random(0, 4611686018427387903)
\set k27 random(0, 4611686018427387903)
\set k28 random(0, 4611686018427387903)
\set k29 random(0, 4611686018427387903)
\set k30 random(0, 4611686018427387903)
\set k31 random(0, 4611686018427387903)
\set k32 random(0, 4611686018427387903)
\set k33 random(0, 4611686018427387903)
\set k34 random(0, 4611686018427387903)
\set k35 random(0, 4611686018427387903)
\set k36 random(0, 4611686018427387903)
\set k37 random(0, 4611686018427387903)
\set k38 random(0, 4611686018427387903)
\set k39 random(0, 4611686018427387903)
\set k40 random(0, 4611686018427387903)
\set k41 random(0, 4611686018427387903)
\set k42 random(0, 4611686018427387903)
\set k43 random(0, 4611686018427387903)
\set k44 random(0, 4611686018427387903)
\set k45 random(0, 4611686018427387903)
\set k46 random(0, 4611686018427387903)
\set k47 random(0, 4611686018427387903)
\set k48 random(0, 4611686018427387903)
\set k49 random(0, 4611686018427387903)
\set k50 random(0, 4611686018427387903)
\set k51 random(0, 4611686018427387903)
\set k52 random(0, 4611686018427387903)
\set k53 random(0, 4611686018427387903)
\set k54 random(0, 4611686018427387903)
\set k55 random(0, 4611686018427387903)
\set k56 random(0, 4611686018427387903)
\set k57 random(0, 4611686018427387903)
\set k58 random(0, 4611686018427387903)
\set k59 random(0, 4611686018427387903)
\set k60 random(0, 4611686018427387903)
\set k61 random(0, 4611686018427387903)
\set k62 random(0, 4611686018427387903)
\set k63 random(0, 4611686018427387903)
\set k64 random(0, 4611686018427387903)
\set k65 random(0, 4611686018427387903)
\set k66 random(0, 4611686018427387903)
\set k67 random(0, 4611686018427387903)
\set k68 random(0, 4611686018427387903)
\set k69 random(0, 4611686018427387903)
\set k70 random(0, 4611686018427387903)
\set k71 random(0, 4611686018427387903)
\set k72 random(0, 4611686018427387903)
\set k73 random(0, 4611686018427387903)
\set k74 random(0, 4611686018427387903)
\set k75 random(0, 4611686018427387903)
\set k76 random(0, 4611686018427387903)
\set k77 random(0, 4611686018427387903)
\set k78 random(0, 4611686018427387903)
\set k79 random(0, 4611686018427387903)
\set k80 random(0, 4611686018427387903)
\set k81 random(0, 4611686018427387903)
\set k82 random(0, 4611686018427387903)
\set k83 random(0, 4611686018427387903)
\set k84 random(0, 4611686018427387903)
\set k85 random(0, 4611686018427387903)
\set k86 random(0, 4611686018427387903)
\set k87 random(0, 4611686018427387903)
\set k88 random(0, 4611686018427387903)
\set k89 random(0, 4611686018427387903)
\set k90 random(0, 4611686018427387903)
\set k91 random(0, 4611686018427387903)
\set k92 random(0, 4611686018427387903)
\set k93 random(0, 4611686018427387903)
\set k94 random(0, 4611686018427387903)
\set k95 random(0, 4611686018427387903)
\set k96 random(0, 4611686018427387903)
\set k97 random(0, 4611686018427387903)
\set k98 random(0, 4611686018427387903)
\set k99 random(0, 4611686018427387903)
\set partition random(0, 7)
\set offset random(0, 1000000)
BEGIN;
INSERT INTO idempotent_jobs.processed (job, key, fingerprint, scheme, "group", topic, partition, "offset") SELECT 'charge', '[' || k || ',"charge"]', '\x2c26b46b68ffc68ff99b453c1d30413413422d706483bfa0f98a5e886266e7ae', 'json-1', 'pgbench', 'bench-grouped', :partition, :offset + n FROM unnest(ARRAY[:k0, :k1, :k2, :k3, :k4, :k5, :k6, :k7, :k8, :k9, :k10, :k11, :k12, :k13, :k14, :k15, :k16, :k17, :k18, :k19, :k20, :k21, :k22, :k23, :k24, :k25, :k26, :k27, :k28, :k29, :k30, :k31, :k32, :k33, :k34, :k35, :k36, :k37, :k38, :k39, :k40, :k41, :k42, :k43, :k44, :k45, :k46, :k47, :k48, :k49, :k50, :k51, :k52, :k53, :k54, :k55, :k56, :k57, :k58, :k59, :k60, :k61, :k62, :k63, :k64, :k65, :k66, :k67, :k68, :k69, :k70, :k71, :k72, :k73, :k74, :k75, :k76, :k77, :k78, :k79, :k80, :k81, :k82, :k83, :k84, :k85, :k86, :k87, :k88, :k89, :k90, :k91, :k92, :k93, :k94, :k95, :k96, :k97, :k98, :k99]::bigint[]) WITH ORDINALITY AS u (k, n) ON CONFLICT (job, key) DO NOTHING RETURNING key;
INSERT INTO charges (order_id, amount_cents) VALUES (:k0, :offset);
INSERT INTO charges (order_id, amount_cents) VALUES (:k1, :offset);
INSERT INTO charges (order_id, amount_cents) VALUES (:k2, :offset);
INSERT INTO charges (order_id, amount_cents) VALUES (:k3, :offset);
INSERT INTO charges (order_id, amount_cents) VALUES (:k4, :offset);
INSERT INTO charges (order_id, amount_cents) VALUES (:k5, :offset);
INSERT INTO charges (order_id, amount_cents) VALUES (:k6, :offset);
INSERT INTO charges (order_id, amount_cents) VALUES (:k7, :offset);
INSERT INTO charges (order_id, amount_cents) VALUES (:k8, :offset);
INSERT INTO charges (order_id, amount_cents) VALUES (:k9, :offset);
INSERT INTO charges (order_id, amount_cents) VALUES (:k10, :offset);
INSERT INTO charges (order_id, amount_cents) VALUES (:k11, :offset);
INSERT INTO charges (order_id, amount_cents) VALUES (:k12, :offset);
INSERT INTO charges (order_id, amount_cents) VALUES (:k13, :offset);
INSERT INTO charges (order_id, amount_cents) VALUES (:k14, :offset);
INSERT INTO charges (order_id, amount_cents) VALUES (:k15, :offset);
INSERT INTO charges (order_id, amount_cents) VALUES (:k16, :offset);
INSERT INTO charges (order_id, amount_cents) VALUES (:k17, :offset);
INSERT INTO charges (order_id, amount_cents) VALUES (:k18, :offset);
INSERT INTO charges (order_id, amount_cents) VALUES (:k19, :offset);
INSERT INTO charges (order_id, amount_cents) VALUES (:k20, :offset);
INSERT INTO charges (order_id, amount_cents) VALUES (:k21, :offset);
INSERT INTO charges (order_id, amount_cents) VALUES (:k22, :offset);
INSERT INTO charges (order_id, amount_cents) VALUES (:k23, :offset);
INSERT INTO charges (order_id, amount_cents) VALUES (:k24, :offset);
INSERT INTO charges (order_id, amount_cents) VALUES (:k25, :offset);
INSERT INTO charges (order_id, amount_cents) VALUES (:k26, :offset);
INSERT INTO charges (order_id, amount_cents) VALUES (:k27, :offset);
INSERT INTO charges (order_id, amount_cents) VALUES (:k28, :offset);
INSERT INTO charges (order_id, amount_cents) VALUES (:k29, :offset);
INSERT INTO charges (order_id, amount_cents) VALUES (:k30, :offset);
INSERT INTO charges (order_id, amount_cents) VALUES (:k31, :offset);
INSERT INTO charges (order_id, amount_cents) VALUES (:k32, :offset);
INSERT INTO charges (order_id, amount_cents) VALUES (:k33, :offset);
INSERT INTO charges (order_id, amount_cents) VALUES (:k34, :offset);
INSERT INTO charges (order_id, amount_cents) VALUES (:k35, :offset);
INSERT INTO charges (order_id, amount_cents) VALUES (:k36, :offset);
INSERT INTO charges (order_id, amount_cents) VALUES (:k37, :offset);
INSERT INTO charges (order_id, amount_cents) VALUES (:k38, :offset);
INSERT INTO charges (order_id, amount_cents) VALUES (:k39, :offset);
INSERT INTO charges (order_id, amount_cents) VALUES (:k40, :offset);
INSERT INTO charges (order_id, amount_cents) VALUES (:k41, :offset);
INSERT INTO charges (order_id, amount_cents) VALUES (:k42, :offset);
INSERT INTO charges (order_id, amount_cents) VALUES (:k43, :offset);
INSERT INTO charges (order_id, amount_cents) VALUES (:k44, :offset);
INSERT INTO charges (order_id, amount_cents) VALUES (:k45, :offset);
INSERT INTO charges (order_id, amount_cents) VALUES (:k46, :offset);
INSERT INTO charges (order_id, amount_cents) VALUES (:k47, :offset);
INSERT INTO charges (order_id, amount_cents) VALUES (:k48, :offset);
INSERT INTO charges (order_id, amount_cents) VALUES (:k49, :offset);
INSERT INTO charges (order_id, amount_cents) VALUES (:k50, :offset);
INSERT INTO charges (order_id, amount_cents) VALUES (:k51, :offset);
INSERT INTO charges (order_id, amount_cents) VALUES (:k52, :offset);
INSERT INTO charges (order_id, amount_cents) VALUES (:k53, :offset);
INSERT INTO charges (order_id, amount_cents) VALUES (:k54, :offset);
INSERT INTO charges (order_id, amount_cents) VALUES (:k55, :offset);
INSERT INTO charges (order_id, amount_cents) VALUES (:k56, :offset);
INSERT INTO charges (order_id, amount_cents) VALUES (:k57, :offset);
INSERT INTO charges (order_id, amount_cents) VALUES (:k58, :offset);
INSERT INTO charges (order_id, amount_cents) VALUES (:k59, :offset);
INSERT INTO charges (order_id, amount_cents) VALUES (:k60, :offset);
INSERT INTO charges (order_id, amount_cents) VALUES (:k61, :offset);
INSERT INTO charges (order_id, amount_cents) VALUES (:k62, :offset);
INSERT INTO charges (order_id, amount_cents) VALUES (:k63, :offset);
INSERT INTO charges (order_id, amount_cents) VALUES (:k64, :offset);
INSERT INTO charges (order_id, amount_cents) VALUES (:k65, :offset);
INSERT INTO charges (order_id, amount_cents) VALUES (:k66, :offset);
INSERT INTO charges (order_id, amount_cents) VALUES (:k67, :offset);
INSERT INTO charges (order_id, amount_cents) VALUES (:k68, :offset);
INSERT INTO charges (order_id, amount_cents) VALUES (:k69, :offset);
INSERT INTO charges (order_id, amount_cents) VALUES (:k70, :offset);
INSERT INTO charges (order_id, amount_cents) VALUES (:k71, :offset);
INSERT INTO charges (order_id, amount_cents) VALUES (:k72, :offset);
INSERT INTO charges (order_id, amount_cents) VALUES (:k73, :offset);
INSERT INTO charges (order_id, amount_cents) VALUES (:k74, :offset);
INSERT INTO charges (order_id, amount_cents) VALUES (:k75, :offset);
INSERT INTO charges (order_id, amount_cents) VALUES (:k76, :offset);
INSERT INTO charges (order_id, amount_cents) VALUES (:k77, :offset);
INSERT INTO charges (order_id, amount_cents) VALUES (:k78, :offset);
INSERT INTO charges (order_id, amount_cents) VALUES (:k79, :offset);
INSERT INTO charges (order_id, amount_cents) VALUES (:k80, :offset);
INSERT INTO charges (order_id, amount_cents) VALUES (:k81, :offset);
INSERT INTO charges (order_id, amount_cents) VALUES (:k82, :offset);
INSERT INTO charges (order_id, amount_cents) VALUES (:k83, :offset);
INSERT INTO charges (order_id, amount_cents) VALUES (:k84, :offset);
INSERT INTO charges (order_id, amount_cents) VALUES (:k85, :offset);
INSERT INTO charges (order_id, amount_cents) VALUES (:k86, :offset);
INSERT INTO charges (order_id, amount_cents) VALUES (:k87, :offset);
INSERT INTO charges (order_id, amount_cents) VALUES (:k88, :offset);
INSERT INTO charges (order_id, amount_cents) VALUES (:k89, :offset);
INSERT INTO charges (order_id, amount_cents) VALUES (:k90, :offset);
INSERT INTO charges (order_id, amount_cents) VALUES (:k91, :offset);
INSERT INTO charges (order_id, amount_cents) VALUES (:k92, :offset);
INSERT INTO charges (order_id, amount_cents) VALUES (:k93, :offset);
INSERT INTO charges (order_id, amount_cents) VALUES (:k94, :offset);
INSERT INTO charges (order_id, amount_cents) VALUES (:k95, :offset);
INSERT INTO charges (order_id, amount_cents) VALUES (:k96, :offset);
INSERT INTO charges (order_id, amount_cents) VALUES (:k97, :offset);
INSERT INTO charges (order_id, amount_cents) VALUES (:k98, :offset);
INSERT INTO charges (order_id, amount_cents) VALUES (:k99, :offset);
COMMIT;
