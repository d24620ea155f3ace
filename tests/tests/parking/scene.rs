//! A world with lanes, of which some wait.

use std::time::{Duration, Instant};

use idempotent_jobs::dead_letters::{DeadLetter, DeadLetters, Filter, LetterState, ParkedLane};
use serde_json::json;
use tests::broker::Wire;
use tests::database::Kind;
use tests::letters::WHO;
use tests::worker::Running;
use tests::world::World;
use tests::{PATIENCE, wait_for};

use super::jobs::{Mended, PARKING, Work};

/// Every kind of transaction, by the first word of its job.
pub const FORMS: [&str; 3] = ["single", "shared", "batch"];

pub struct Scene {
    pub world: World,
    pub mended: Mended,
    pub form: &'static str,
}

pub fn wire(lane: &str, work: &Work) -> Wire {
    Wire { key: Some(lane.into()), payload: Some(json!(work).to_string().into_bytes()), ..Wire::default() }
}

/// Good messages of a lane.
pub fn good(lane: &str, ids: impl IntoIterator<Item = i64>) -> Vec<Wire> {
    ids.into_iter().map(|id| wire(lane, &Work { id, ..Work::default() })).collect()
}

/// One that fails until the handlers are mended so far.
pub fn bad(lane: &str, id: i64, until: i64) -> Wire {
    wire(lane, &Work { id, until, ..Work::default() })
}

impl Scene {
    pub fn new(kind: Kind, form: &'static str) -> Self {
        Self { world: World::of(kind, PARKING), mended: Mended::default(), form }
    }

    pub fn job(&self) -> String {
        format!("{}_{}", self.form, self.world.database.kind)
    }

    pub fn work(&self) -> Running {
        self.work_beside(&[])
    }

    /// With further jobs.
    pub fn work_beside(&self, forms: &[&str]) -> Running {
        let beside = forms.iter().map(|form| format!("{form}_{}", self.world.database.kind));
        let jobs: Vec<String> = std::iter::once(self.job()).chain(beside).collect();
        self.world.work_as([], |builder| builder.jobs(jobs).state(self.mended.clone()))
    }

    pub fn done(&self) -> Vec<i64> {
        self.world.database.ids(&self.job())
    }

    /// Of these, the ones that are done, in the order they were.
    pub fn done_of(&self, ids: std::ops::Range<i64>) -> Vec<i64> {
        self.done().into_iter().filter(|id| ids.contains(id)).collect()
    }

    pub fn operator(&self) -> DeadLetters {
        wait_for(DeadLetters::connect(self.world.database.url())).expect("the test's database opens")
    }

    pub fn lanes(&self) -> Vec<ParkedLane> {
        wait_for(self.operator().parked()).expect("lanes can be read")
    }

    pub fn letter(&self, id: i64) -> DeadLetter {
        let key = format!("[{id}]");
        let found = self.world.letters().into_iter().find(|letter| letter.key.as_ref() == Some(&key));
        found.unwrap_or_else(|| panic!("{id} is no letter"))
    }

    pub fn states(&self) -> Vec<LetterState> {
        self.world.letters().into_iter().map(|letter| letter.state).collect()
    }

    pub fn skip(&self, id: i64) {
        let filter = Filter::default().ids([id]);
        wait_for(self.operator().skip(&filter, WHO)).expect("it can be skipped");
    }

    /// Waits until nothing is left to be run again.
    pub fn rests(&self) {
        self.until("nothing is requested", |scene| !scene.states().contains(&LetterState::Requested));
    }

    pub fn until(&self, what: &str, mut holds: impl FnMut(&Self) -> bool) {
        const LOOK: Duration = Duration::from_millis(100);
        let deadline = Instant::now() + PATIENCE;
        while !holds(self) {
            assert!(
                Instant::now() < deadline,
                "in vain: {what}; {:?}\n{}",
                self.world.letters(),
                self.world.events.seen().describe()
            );
            self.world.events.wait_briefly(LOOK, |_| false);
        }
    }
}
