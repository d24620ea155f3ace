//! Two members of a group, one of which comes and goes while messages flow.

use std::time::Duration;

use idempotent_jobs::__private::Point;

use crate::child::Child;
use crate::events;
use crate::world::World;

/// How the flow is disturbed.
#[derive(Debug, Clone, Copy)]
pub struct Plan {
    /// How often the second member joins and leaves.
    pub visits: i64,
    /// Every so many visits end with SIGKILL, the others with SIGTERM; 0 for never.
    pub kill_every: i64,
    /// Messages of one visit.
    pub messages: i64,
}

/// What was seen.
#[derive(Debug, Clone, Copy)]
pub struct Seen {
    /// Messages that the visitor began.
    pub by_visitor: usize,
    /// Messages that came again and were skipped.
    pub skipped: usize,
}

/// How long a member may take to get its share: the dead one's session, and a rebalance.
const SHARE: Duration = Duration::from_secs(60);

/// A visitor that got so much to do leaves; it may also get less in this time.
const BUSY: usize = 40;
const BRIEFLY: Duration = Duration::from_secs(2);

/// Plays the plan in the world, with these librdkafka properties for both members.
///
/// The first member has one worker thread, the second a `current_thread` runtime: a callback
/// that waited for either would hang the group (CON-15).
///
/// # Panics
/// When a member dies by itself, or a message does not settle.
pub fn run(world: &World, plan: Plan, properties: &[(&str, &str)]) -> Seen {
    let start = |runtime: &str| {
        let mut command = world.command(properties);
        command.env("CHILD_RUNTIME", runtime);
        world.start(command)
    };
    let host = start("one_worker");
    world.joined(&host, SHARE);
    let mut by_visitor = 0;
    for visit in 1..=plan.visits {
        let goal = visit * plan.messages;
        world.send_up_to(goal - plan.messages / 2);
        let visitor = start("current_thread");
        world.joined(&visitor, SHARE);
        let source = visitor.source;
        // It leaves in the middle of its work.
        world.send_up_to(goal);
        let work = |seen: &events::Seen| seen.count(source, Point::Claimed) >= BUSY;
        world.events.wait_briefly(BRIEFLY, work);
        leave(visitor, plan.kill_every > 0 && visit % plan.kill_every == 0);
        by_visitor += world.events.seen().count(source, Point::Claimed);
    }
    world.settled(SHARE * 3);
    host.stop();
    Seen { by_visitor, skipped: world.skipped() }
}

fn leave(visitor: Child, killed: bool) {
    if killed {
        visitor.kill();
    } else {
        visitor.stop();
    }
}
