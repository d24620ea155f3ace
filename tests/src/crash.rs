//! A process struck down at each point in the life of a message, and what became of the messages.

mod round;
mod table;

use std::fmt;

use idempotent_jobs::__private::Point;

use crate::proxy::Trap;

pub use self::table::{HEADING, Row, Table, run};

/// How a process is struck.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Blow {
    /// SIGKILL: nothing more is done.
    Kill,
    /// SIGTERM: what runs is finished, and the process ends with 0.
    Terminate,
    /// Only its connections to the database are lost, the process lives.
    Cut,
}

/// When.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Moment {
    /// A message stands still at this point.
    At(Point),
    /// A COMMIT is under way.
    Commit(Trap),
}

/// One line of the table.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Case {
    pub moment: Moment,
    pub blow: Blow,
}

const POINTS: [Point; 5] = [Point::Claimed, Point::Handled, Point::Committed, Point::Recorded, Point::OffsetCommitted];

/// Every case of a database. One file has no connection that could be lost during COMMIT.
pub fn cases(kind: crate::database::Kind) -> Vec<Case> {
    let at = |blow| POINTS.iter().map(move |point| Case { moment: Moment::At(*point), blow });
    let mut cases: Vec<Case> = at(Blow::Kill).chain(at(Blow::Terminate)).collect();
    if kind == crate::database::Kind::Postgres {
        for trap in [Trap::Unsent, Trap::Unanswered] {
            cases.extend([Blow::Kill, Blow::Cut].map(|blow| Case { moment: Moment::Commit(trap), blow }));
        }
    }
    cases
}

impl Case {
    /// What DESIGN's table says of the message that was struck: whether it had committed, so that
    /// it is skipped when it comes again, or runs again. `None`: it does not come again.
    pub fn committed(&self) -> Option<bool> {
        match self.moment {
            Moment::At(Point::OffsetCommitted) => None,
            // A clean stop settles what runs.
            Moment::At(_) if self.blow == Blow::Terminate => None,
            Moment::At(point) => Some(matches!(point, Point::Committed | Point::Recorded)),
            Moment::Commit(trap) => Some(trap == Trap::Unanswered),
        }
    }
}

impl fmt::Display for Case {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let moment = match self.moment {
            Moment::At(Point::Claimed) => "after the claim, before the handler",
            Moment::At(Point::Handled) => "after the handler, before COMMIT",
            Moment::At(Point::Committed) => "after COMMIT, before the offset",
            Moment::At(Point::Recorded) => "after the watermark, before the offset",
            Moment::At(Point::OffsetCommitted) => "after the offset commit",
            Moment::At(_) => "elsewhere",
            Moment::Commit(Trap::Unsent) => "during COMMIT, the server never got it",
            Moment::Commit(Trap::Unanswered) => "during COMMIT, done but not answered",
        };
        let blow = match self.blow {
            Blow::Kill => "SIGKILL",
            Blow::Terminate => "SIGTERM",
            Blow::Cut => "connection lost",
        };
        write!(f, "{moment}: {blow}")
    }
}
