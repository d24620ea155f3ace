//! The order of a key's effects on real Kafka and PostgreSQL, while handlers fail and members are
//! struck down, join and leave: RET-01. The same at length is the program `order_table`.

use tests::order::{Plan, Way, play};

/// The seed draws who is struck, how, and when.
fn holds(way: Way, seed: u64) {
    let plan = Plan { messages: 5_000, keys: 100, concurrency: 32, blows: 2, visits: 1, seed };
    let row = play(&plan, way);
    println!("{row}");
    assert!(row.is_good() && row.joins == 1 && row.kills > 0 && row.terms > 0, "{row:?}");
}

#[test]
fn ret_01_effects_of_a_key_are_in_the_order_of_the_log() {
    holds(Way::Single, 5);
}

#[test]
fn ret_01_effects_of_a_key_are_in_the_order_of_the_log_with_shared_transactions() {
    holds(Way::Shared, 162);
}

#[test]
fn ret_01_effects_of_a_key_are_in_the_order_of_the_log_with_batches() {
    holds(Way::Batch, 55);
}
