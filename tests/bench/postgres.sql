-- What the jobs write: plain numbers, and no unique index but the primary key.
CREATE TABLE charges (
    id           bigint GENERATED ALWAYS AS IDENTITY PRIMARY KEY,
    order_id     bigint NOT NULL,
    amount_cents bigint NOT NULL
);
