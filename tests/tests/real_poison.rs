//! Poison of every kind in a stream, on real Kafka and PostgreSQL, while workers are killed. The same at length is
//! the program `poison_table`.

use tests::poison::{Plan, play};

#[test]
fn con_10_poison_of_every_kind_stops_nobody_and_accuses_nobody() {
    // None that ends its process: those are not recognised yet.
    let row = play(&Plan::new(5_000, 100, 4, 0, 3));
    println!("{row}");
    assert!(row.is_good() && row.kills == 4 && row.deaths == 0, "{row:?}");
}
