//! A process that is struck down while messages share its transaction.

use idempotent_jobs::__private::Point;
use tests::crash::{self, Blow, Case, Moment};
use tests::database::Kind;

pub fn a_process_struck_down_within_a_group_loses_and_doubles_nothing(kind: Kind) {
    let table = crash::run(kind, "shared", 2, |row| println!("{row}"));
    assert!(table.is_good(), "{table:#?}");
    let handled = Case { moment: Moment::At(Point::Handled), blow: Blow::Kill };
    let row = table.rows.iter().find(|row| row.case == handled).expect("the case was played");
    assert!(row.again > row.rounds as usize, "more than the struck message ran again, since it had company: {row}");
}
