//! The messages: the same for everyone who is measured.

use idempotent_jobs::KeyPart;
use serde::{Deserialize, Serialize};

/// One message, about 200 bytes of JSON.
#[derive(Debug, Serialize, Deserialize)]
pub struct Charge {
    pub order_id: i64,
    pub op: Op,
    pub amount_cents: i64,
    pub note: String,
}

/// What is done with the order.
#[derive(Debug, Clone, Copy, Serialize, Deserialize, KeyPart)]
#[serde(rename_all = "lowercase")]
pub enum Op {
    /// The only one that is sent.
    #[key("charge")]
    Charge,
}

/// The n-th message: the same in every run, its order anywhere among all.
pub fn nth(n: u64) -> Charge {
    Charge {
        order_id: order_id(n),
        op: Op::Charge,
        amount_cents: i64::try_from(n % 100_000).expect("below 100,000"),
        note: format!("order {n:>9}, left at the door of number {:>5}, {}", n % 10_007, "as agreed; ".repeat(6)),
    }
}

/// Splitmix64 is a bijection: no two messages are of one order until a bit is dropped, and then
/// hardly ever.
fn order_id(n: u64) -> i64 {
    let mut z = n.wrapping_add(1).wrapping_mul(0x9e37_79b9_7f4a_7c15);
    z = (z ^ (z >> 30)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
    z = (z ^ (z >> 27)).wrapping_mul(0x94d0_49bb_1331_11eb);
    i64::try_from((z ^ (z >> 31)) >> 2).expect("62 bits")
}
