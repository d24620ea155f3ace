//! How much is measured.

/// A topic, and how many messages are in it.
#[derive(Debug, Clone, Copy)]
pub struct Load {
    pub topic: &'static str,
    pub messages: u64,
}

/// The loads of a run. Each must take some seconds to work off, whoever does it.
#[derive(Debug, Clone, Copy)]
pub struct Loads {
    /// For one job a transaction, side by side.
    pub single: Load,
    /// For one connection to PostgreSQL.
    pub few: Load,
    /// For one job a transaction on SQLite, which does one after another.
    pub sqlite: Load,
    /// For many jobs a transaction.
    pub grouped: Load,
}

impl Loads {
    pub fn full() -> Self {
        Self::of(30_000, 6_000, 20_000, 150_000)
    }

    pub fn quick() -> Self {
        Self::of(20_000, 3_000, 10_000, 150_000)
    }

    pub fn all(self) -> [Load; 4] {
        [self.single, self.few, self.sqlite, self.grouped]
    }

    fn of(single: u64, few: u64, sqlite: u64, grouped: u64) -> Self {
        Self {
            single: Load { topic: "bench-single", messages: single },
            few: Load { topic: "bench-few", messages: few },
            sqlite: Load { topic: "bench-sqlite", messages: sqlite },
            grouped: Load { topic: "bench-grouped", messages: grouped },
        }
    }
}
