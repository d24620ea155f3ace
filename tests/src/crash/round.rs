//! One round: fresh messages, one blow, a successor, and everything settled.

use std::sync::Arc;

use idempotent_jobs::__private::Point;
use idempotent_jobs::Coordinates;

use super::{Blow, Case, Moment};
use crate::PATIENCE;
use crate::child::Child;
use crate::events::{Event, Events, Source};
use crate::proxy::{Proxy, Trap};
use crate::world::World;

/// Messages of one round: few enough to be quick, enough to have some before and behind the blow.
pub const MESSAGES: i64 = 20;

/// The world of a case, whose children reach PostgreSQL through the proxy.
pub struct Scene {
    pub world: World,
    pub proxy: Option<Proxy>,
    pub job: String,
}

impl Scene {
    /// A child that finds its partitions at once.
    pub fn child(&self) -> Child {
        let mut command = self.world.command(self.world.quick());
        command.env("CHILD_JOB", &self.job);
        if self.job.starts_with("shared") {
            // Few messages are spread over all connections: more would leave each alone.
            command.env("CHILD_CONCURRENCY", "1");
        }
        if let Some(proxy) = &self.proxy {
            command.env("DATABASE_URL", proxy.url(self.world.database.url()));
        }
        self.world.start(command)
    }

    /// Plays the round with a running child; who lives after it.
    pub fn round(&self, case: Case, number: i64, mut child: Child) -> Child {
        let first = self.world.events.seen().events.len();
        // Over the rounds the blow falls on other messages of the twenty.
        let nth = if matches!(case.moment, Moment::At(Point::Recorded | Point::OffsetCommitted)) {
            1
        } else {
            1 + usize::try_from(number % 8).unwrap_or(0)
        };
        let halt = match case.moment {
            Moment::At(point) => point,
            Moment::Commit(_) => Point::Handled,
        };
        child.halt_at(halt, nth);
        self.world.send(number * MESSAGES..(number + 1) * MESSAGES);
        let (at, struck) = (child.halted(), child.source);
        let child = self.strike(case, child);
        self.world.settled(PATIENCE);
        check(&self.world.events, first, struck, case, &at);
        child
    }

    fn strike(&self, case: Case, mut child: Child) -> Child {
        if let Moment::Commit(trap) = case.moment {
            self.intercept(trap, &mut child);
        }
        match case.blow {
            Blow::Kill => child.kill(),
            Blow::Terminate => {
                child.terminate();
                child.go();
                child.stop();
            }
            Blow::Cut => {
                self.proxy().drop_connections();
                return child;
            }
        }
        // The connections of the dead are gone before the next one comes, as when a host is lost.
        self.child()
    }

    fn intercept(&self, trap: Trap, child: &mut Child) {
        let proxy = self.proxy();
        proxy.trap(trap);
        child.go();
        let said = proxy.sprung(PATIENCE);
        // The answer may say of the next transaction too, which began in the same trip.
        let done = said.split(", ").any(|tag| tag == "COMMIT");
        assert_eq!(
            (done, said.is_empty()),
            (trap == Trap::Unanswered, trap == Trap::Unsent),
            "the server said `{said}`"
        );
    }

    fn proxy(&self) -> &Proxy {
        self.proxy.as_ref().expect("cases of a lost COMMIT have a proxy")
    }
}

/// The struck message went the way of DESIGN's table, so the blow fell where the case says.
fn check(events: &Arc<Events>, first: usize, struck: Source, case: Case, at: &Coordinates) {
    let seen = events.seen();
    let of = |event: &&Event| event.at == *at;
    let times = |point| seen.events[first..].iter().filter(of).filter(|event| event.point == point).count();
    let (claimed, skipped) = (times(Point::Claimed), times(Point::Skipped));
    match (case.committed(), case.moment) {
        // A group that had committed nothing yet goes on at the watermark, and the message does not come again.
        (Some(true), Moment::At(Point::Recorded)) => {
            assert!(claimed == 1 && skipped <= 1, "{case}: {at} ({claimed} times claimed, {skipped} skipped)");
        }
        (Some(committed), Moment::At(_)) => {
            assert_eq!((claimed, skipped), if committed { (1, 1) } else { (2, 0) }, "{case}: {at} (claimed, skipped)");
        }
        // Another message's COMMIT may have been the one that was intercepted.
        (Some(_), Moment::Commit(_)) => assert!((1..=2).contains(&claimed), "{case}: {at} was claimed {claimed} times"),
        // Told to end, a program starts nothing more: behind a message that it left to its successor, one that it had
        // done comes again, since only the finished prefix is committed.
        (None, _) => {
            let before = |event: &&Event| event.at.partition == at.partition && event.at.offset < at.offset;
            let mut left = seen.events[first..].iter().filter(before).filter(|event| event.source != struck);
            let is_left = left.any(|event| event.point == Point::Claimed);
            assert!(skipped == 0 || is_left, "{case}: {at} came again, and none before it was left");
        }
    }
}
