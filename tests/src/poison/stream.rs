//! The messages, good and bad.

use std::collections::HashMap;

use serde_json::{Value, json};

use super::{Bad, POISONED, Plan};
use crate::broker::Wire;

/// A message as it is sent.
pub(super) struct Sent {
    pub id: i64,
    pub wire: Wire,
    pub bad: Option<Bad>,
}

/// Makes the messages one after the other.
pub(super) struct Stream<'a> {
    plan: &'a Plan,
    next: i64,
    /// The last good message of each Kafka key.
    good: HashMap<u64, i64>,
}

impl<'a> Stream<'a> {
    pub(super) fn new(plan: &'a Plan) -> Self {
        Self { plan, next: 0, good: HashMap::new() }
    }

    pub(super) fn take(&mut self, messages: i64) -> Vec<Sent> {
        let until = (self.next + messages).min(self.plan.messages);
        let made = (self.next..until).map(|id| self.make(id)).collect();
        self.next = until;
        made
    }

    fn make(&mut self, id: i64) -> Sent {
        let lane = self.plan.key(id);
        // A key that nothing was done of has nothing to be in conflict with.
        let bad = Bad::of(self.plan, id).map(|bad| match bad {
            Bad::Conflict if !self.good.contains_key(&lane) => Bad::Terminal,
            bad => bad,
        });
        let payload = match bad {
            None => {
                self.good.insert(lane, id);
                Some(bytes(&json!({ "id": id })))
            }
            Some(Bad::Tombstone) => None,
            Some(Bad::Undecodable) => Some([format!("{{\"id\": {id}, ").as_bytes(), &[0xff, 0, 0xc3]].concat()),
            Some(Bad::Keyless) => Some(bytes(&json!({ "note": id }))),
            Some(Bad::Conflict) => Some(bytes(&json!({ "id": self.good[&lane], "note": id }))),
            Some(Bad::Large) => Some(bytes(&json!({ "id": id, "does": Bad::Terminal, "more": "x".repeat(900_000) }))),
            Some(bad) => Some(bytes(&json!({ "id": id, "does": bad }))),
        };
        let partition = i32::try_from(lane % POISONED.1.unsigned_abs() as u64).expect("less than the partitions");
        let headers = if bad.is_some() { odd_headers() } else { Vec::new() };
        Sent { id, wire: Wire { partition, key: Some(lane.to_string().into_bytes()), payload, headers }, bad }
    }
}

/// Repeated, empty, and no text.
fn odd_headers() -> Vec<(String, Vec<u8>)> {
    vec![("trace".into(), b"1".to_vec()), ("trace".into(), vec![0xff, 0, 0xc3]), ("empty".into(), Vec::new())]
}

fn bytes(value: &Value) -> Vec<u8> {
    value.to_string().into_bytes()
}
