//! All cases of a database, round after round, as a table.

use std::fmt;

use idempotent_jobs::__private::Point;

use super::round::{MESSAGES, Scene};
use super::{Blow, Case, Moment, cases};
use crate::PATIENCE;
use crate::database::Kind;
use crate::proxy::Proxy;
use crate::world::{CRASH, Count, World};

/// What became of a case.
#[derive(Debug, Clone)]
pub struct Row {
    pub case: Case,
    pub rounds: i64,
    /// Blows that ended the process.
    pub kills: i64,
    pub count: Count,
    /// Messages that came again and were skipped.
    pub skipped: usize,
    /// Attempts that were rolled back and run again.
    pub again: usize,
}

/// See the module.
#[derive(Debug, Clone)]
pub struct Table {
    pub kind: Kind,
    pub rows: Vec<Row>,
}

/// Messages after the last round.
const LAST: i64 = 2;

/// Plays every case so many times with the child's job of this form; `each` sees the rows as
/// they come.
pub fn run(kind: Kind, form: &str, rounds: i64, mut each: impl FnMut(&Row)) -> Table {
    let rows = cases(kind).into_iter().map(|case| {
        let row = play(kind, form, case, rounds);
        each(&row);
        row
    });
    Table { kind, rows: rows.collect() }
}

fn play(kind: Kind, form: &str, case: Case, rounds: i64) -> Row {
    let world = World::of(kind, CRASH);
    let proxy = matches!(case.moment, Moment::Commit(_)).then(|| Proxy::to(world.database.url()));
    let scene = Scene { world, proxy, job: format!("{form}_{kind}") };
    let mut child = scene.child();
    for number in 0..rounds {
        child = scene.round(case, number, child);
    }
    // The last one lives and works, before it is stopped.
    scene.world.send(rounds * MESSAGES..rounds * MESSAGES + LAST);
    scene.world.settled(PATIENCE);
    child.stop();
    let count = scene.world.count();
    let claimed = scene.world.events.seen().total(Point::Claimed);
    Row {
        case,
        rounds,
        kills: if case.blow == Blow::Cut { 0 } else { rounds },
        count,
        skipped: scene.world.skipped(),
        again: claimed.saturating_sub(count.sent - count.lost),
    }
}

impl Row {
    /// Whether nothing was lost and nothing done twice.
    pub fn is_good(&self) -> bool {
        let sent = usize::try_from(self.rounds * MESSAGES + LAST).unwrap_or(0);
        self.count == Count { sent, lost: 0, doubled: 0 }
    }
}

impl Table {
    /// Whether nothing was lost and nothing done twice, in any case.
    pub fn is_good(&self) -> bool {
        self.rows.iter().all(Row::is_good)
    }
}

/// The heading over the rows.
pub const HEADING: &str =
    "case                                                      rounds   kills    sent skipped   again    lost doubled";

impl fmt::Display for Row {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Count { sent, lost, doubled } = self.count;
        let Self { rounds, kills, skipped, again, .. } = self;
        let case = self.case.to_string();
        write!(f, "{case:<56} {rounds:>7} {kills:>7} {sent:>7} {skipped:>7} {again:>7} {lost:>7} {doubled:>7}")
    }
}
