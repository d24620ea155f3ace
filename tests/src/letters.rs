//! The dead letters of a world.

use std::time::{Duration, Instant};

use idempotent_jobs::dead_letters::{Answer, DeadLetter, DeadLetters, Filter, LetterState, Shown};

use crate::broker::Wire;
use crate::world::World;
use crate::{PATIENCE, wait_for};

/// Who asks.
pub const WHO: &str = "ann@example.com";

impl World {
    fn dead(&self) -> DeadLetters {
        wait_for(DeadLetters::connect(self.database.url())).expect("the test's database opens")
    }

    /// All of them, the oldest first.
    ///
    /// # Panics
    /// When they cannot be read.
    pub fn letters(&self) -> Vec<DeadLetter> {
        wait_for(self.dead().list(&Filter::default().limit(100_000))).expect("dead letters can be read")
    }

    /// The only one.
    ///
    /// # Panics
    /// When there is another number of them.
    pub fn letter(&self) -> DeadLetter {
        let mut letters = self.letters();
        assert_eq!(letters.len(), 1, "{letters:?}");
        letters.remove(0)
    }

    /// One with its history.
    ///
    /// # Panics
    /// When it is not there.
    pub fn shown(&self, id: i64) -> Shown {
        wait_for(self.dead().show(id)).expect("dead letters can be read").expect("the letter is there")
    }

    /// Asks for all open ones to be run again; what was answered.
    ///
    /// # Panics
    /// When the database refuses.
    pub fn ask(&self) -> Vec<(i64, Answer)> {
        wait_for(self.dead().redrive(&Filter::open(), WHO)).expect("a redrive can be asked for")
    }

    /// Asks for some, whatever their state.
    ///
    /// # Panics
    /// When the database refuses.
    pub fn ask_for(&self, ids: &[i64]) -> Vec<(i64, Answer)> {
        let filter = Filter::default().ids(ids.iter().copied());
        wait_for(self.dead().redrive(&filter, WHO)).expect("a redrive can be asked for")
    }

    /// Sets all open ones aside.
    ///
    /// # Panics
    /// When the database refuses.
    pub fn skip(&self) -> Vec<(i64, Answer)> {
        wait_for(self.dead().skip(&Filter::open(), WHO)).expect("dead letters can be skipped")
    }

    /// As JSON lines.
    ///
    /// # Panics
    /// When they are none.
    pub fn exported(&self) -> Vec<serde_json::Value> {
        let mut out = Vec::new();
        wait_for(self.dead().export(&Filter::default(), &mut out)).expect("dead letters can be written");
        let lines = String::from_utf8(out).expect("JSON is text");
        lines.lines().map(|line| serde_json::from_str(line).expect("each line is JSON")).collect()
    }

    /// Waits until none is requested any more, and tells how each stands.
    ///
    /// # Panics
    /// At the deadline.
    pub fn answered(&self) -> Vec<LetterState> {
        const LOOK: Duration = Duration::from_millis(100);
        let deadline = Instant::now() + PATIENCE;
        loop {
            let states: Vec<_> = self.letters().into_iter().map(|letter| letter.state).collect();
            if !states.contains(&LetterState::Requested) {
                return states;
            }
            assert!(Instant::now() < deadline, "still to be run again:\n{}", self.events.seen().describe());
            self.events.wait_briefly(LOOK, |_| false);
        }
    }
}

/// # Panics
/// When the letter is not what was sent.
pub fn assert_whole(letter: &DeadLetter, wire: &Wire) {
    assert_eq!(difference(letter, wire), None, "{}", letter.message.coordinates);
}

/// In what the letter is not byte for byte what was sent.
pub fn difference(letter: &DeadLetter, wire: &Wire) -> Option<&'static str> {
    let message = &letter.message;
    let headers: Vec<_> = message.headers.iter().collect();
    let sent: Vec<_> = wire.headers.iter().map(|(name, value)| (name.as_str(), Some(value.as_slice()))).collect();
    let parts = [
        ("partition", message.coordinates.partition == wire.partition),
        ("key", message.key == wire.key),
        ("payload", message.payload == wire.payload),
        ("headers", headers == sent),
        ("timestamp", message.timestamp.is_some()),
    ];
    parts.into_iter().find(|(_, same)| !same).map(|(what, _)| what)
}
