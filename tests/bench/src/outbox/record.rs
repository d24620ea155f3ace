//! What is enqueued and sent: the same payload of about 200 bytes as everywhere, an order each.

use idempotent_jobs::{JobMessage, Outgoing};
use serde::Serialize;

use crate::Failure;
use crate::message::{Charge, nth};

#[derive(Serialize, JobMessage)]
#[message(topic = "bench-relay", key = "order_id", partition_by = "order_id")]
pub struct Placed {
    pub order_id: i64,
    pub amount_cents: i64,
    pub note: String,
}

/// The n-th.
pub fn placed(n: u64) -> Placed {
    let Charge { order_id, amount_cents, note, .. } = nth(n);
    Placed { order_id, amount_cents, note }
}

pub fn outgoing(n: u64) -> Result<Outgoing, Failure> {
    Ok(Outgoing::of(&placed(n))?)
}
