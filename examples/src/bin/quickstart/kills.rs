//! When the worker is killed: by progress, never by the clock, and always with work unfinished.

/// How often.
pub const KILLS: usize = 3;

/// The kills of a run of so many messages.
#[derive(Debug, Clone)]
pub struct Kills {
    messages: usize,
    made: usize,
}

impl Kills {
    pub fn new(messages: usize) -> Self {
        Self { messages, made: 0 }
    }

    pub fn made(&self) -> usize {
        self.made
    }

    /// One more was made.
    pub fn make(&mut self) {
        self.made += 1;
    }

    /// After how many settled messages the next one is due: at a quarter, a half, three quarters.
    pub fn due(&self) -> Option<usize> {
        (self.made < KILLS).then(|| self.at(self.made + 1))
    }

    /// How many messages may be sent before the next kill: enough that it comes in the middle of
    /// work, never all, so that the worker cannot be through before it.
    pub fn may_send(&self) -> usize {
        let Some(due) = self.due() else { return self.messages };
        let halfway = usize::midpoint(due, self.at(self.made + 2));
        halfway.min(self.messages - 1).max(due).max(1)
    }

    fn at(&self, kill: usize) -> usize {
        self.messages * kill / (KILLS + 1)
    }
}

#[cfg(test)]
mod tests {
    use super::{KILLS, Kills};

    #[test]
    fn every_kill_can_come_and_leaves_work_for_however_few_messages() {
        for messages in 2..200 {
            let mut kills = Kills::new(messages);
            let mut sent = 0;
            while let Some(due) = kills.due() {
                assert!(kills.may_send() >= due, "kill {} of {messages} never comes", kills.made());
                assert!(kills.may_send() < messages, "kill {} of {messages} comes when all is done", kills.made());
                assert!(kills.may_send() >= sent);
                sent = kills.may_send();
                kills.make();
            }
            assert_eq!((kills.made(), kills.may_send()), (KILLS, messages));
        }
    }

    #[test]
    fn kills_come_at_quarters_with_messages_in_flight() {
        let mut kills = Kills::new(400);
        let mut seen = Vec::new();
        while let Some(due) = kills.due() {
            seen.push((due, kills.may_send()));
            kills.make();
        }
        assert_eq!(seen, [(100, 150), (200, 250), (300, 350)]);
    }
}
