use serde::{Deserialize, Deserializer};

use super::*;
use crate::context::{Context, Handle};

use crate::job::{Declaration, Running};
use crate::message::{Coordinates, Headers};

struct NoTx;

impl Handle for NoTx {
    const NAME: &'static str = "NoTx";
    const DATABASE: &'static str = "none";
}

struct Panics;

impl<'de> Deserialize<'de> for Panics {
    fn deserialize<D: Deserializer<'de>>(_: D) -> Result<Self, D::Error> {
        panic!("4111-1111-1111-1111")
    }
}

fn entry<'a>(_: &'a mut NoTx, _: Panics, _: &'a Context) -> Running<'a> {
    unreachable!("a payload that cannot be read does not reach its handler")
}

#[test]
fn err_01_a_payload_type_that_panics_ends_its_message_and_not_the_worker() {
    let job = Declaration::new("charge", "orders", entry).erase();
    let message = Message {
        coordinates: Coordinates { topic: "orders".into(), partition: 0, offset: 0 },
        key: None,
        payload: Some(b"{}".to_vec()),
        headers: Headers::default(),
        timestamp: None,
    };
    let rejection = prepare(&job, &message).err().expect("a panic is no payload");
    assert_eq!(rejection.reason, Reason::Decode);
    assert!(!rejection.detail.contains("4111"), "a panic's text may quote the payload: {}", rejection.detail);
}
