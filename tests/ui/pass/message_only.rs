//! A crate that only produces needs no handle, and a payload may borrow its texts from nobody.

use idempotent_jobs::{JobMessage, KeyPart};

#[derive(serde::Serialize, JobMessage)]
#[message(topic = "orders", key = "order_id, region.0, op", partition_by = "region.0", event = "charged")]
struct Charge {
    order_id: Id<u64>,
    region: (u32, String),
    op: Op,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    note: Option<String>,
}

#[derive(serde::Serialize, KeyPart)]
struct Id<T> {
    value: T,
}

#[derive(Clone, Copy, serde::Serialize, KeyPart)]
enum Op {
    #[key("charge")]
    Charge = 1,
    #[key("rückbuchung")]
    r#Refund,
}

#[test]
fn a_message_says_where_it_goes() {
    assert_eq!(Charge::TOPIC, "orders");
    assert_eq!(Charge::EVENT, Some("charged"));
    let _ = (Op::Charge, Op::r#Refund, Charge::key_parts);
}
