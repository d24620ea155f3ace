//! What is in the database, compared with the file.

use std::collections::HashMap;

use sqlx::{AnyConnection, Connection as _};

use crate::Failure;
use crate::jobs::TABLE;
use crate::orders::Line;

/// The table of effects. It connects when asked: a run is long for a connection that does nothing.
pub struct Ledger(String);

/// What the effects of a run come to.
#[derive(Debug, Default, PartialEq, Eq)]
pub struct Tally {
    /// Rows, doubled ones included.
    pub effects: u64,
    /// Their sum.
    pub cents: i64,
    /// Orders of the file without a row.
    pub lost: u64,
    /// Orders of more than one row.
    pub doubled: u64,
    /// Rows that are of no order of the file, or of another amount.
    pub wrong: u64,
}

/// The rows of one order: its id, how many, their sum.
type Rows = (i64, i64, i64);

const INDEX: &str = "CREATE INDEX IF NOT EXISTS quickstart_effects_of_run ON quickstart_effects (run, order_id)";
const ROWS: &str = "SELECT order_id, COUNT(*), CAST(SUM(amount_cents) AS BIGINT) FROM quickstart_effects
    WHERE run = $1 GROUP BY order_id";

impl Ledger {
    /// Makes the table if it is not there.
    pub async fn open(database_url: &str) -> Result<Self, Failure> {
        sqlx::any::install_default_drivers();
        let ledger = Self(database_url.to_owned());
        let mut connection = ledger.connect().await?;
        for statement in [TABLE, INDEX] {
            sqlx::query(statement).execute(&mut connection).await?;
        }
        connection.close().await?;
        Ok(ledger)
    }

    /// Counts the effects of a run against the lines they are of.
    pub async fn tally(&self, run: &str, lines: &[Line]) -> Result<Tally, Failure> {
        let mut connection = self.connect().await?;
        let rows: Vec<Rows> = sqlx::query_as(ROWS).bind(run).fetch_all(&mut connection).await?;
        connection.close().await?;
        Ok(tally(&rows, lines))
    }

    async fn connect(&self) -> Result<AnyConnection, Failure> {
        Ok(AnyConnection::connect(&self.0).await.map_err(|error| format!("the database of DATABASE_URL: {error}"))?)
    }
}

fn tally(rows: &[Rows], lines: &[Line]) -> Tally {
    let mut expected: HashMap<i64, i64> = lines.iter().map(|line| (line.order_id, line.amount_cents)).collect();
    let mut tally = Tally::default();
    for (order_id, times, cents) in rows {
        let right = expected.remove(order_id).and_then(|amount| amount.checked_mul(*times)) == Some(*cents);
        tally.wrong += u64::from(!right);
        tally.doubled += u64::from(*times > 1);
        tally.effects += times.unsigned_abs();
        tally.cents = tally.cents.saturating_add(*cents);
    }
    tally.lost = expected.len().try_into().unwrap_or(u64::MAX);
    tally
}

#[cfg(test)]
mod tests {
    use super::{Tally, tally};
    use crate::orders::Line;

    fn line(order_id: i64, amount_cents: i64) -> Line {
        Line { order_id, customer_id: 1, ordered_on: "1997-01-01".to_owned(), quantity: 1, amount_cents }
    }

    #[test]
    fn lost_doubled_and_wrong_orders_are_told_apart() {
        let lines = [line(1, 100), line(2, 200), line(3, 300), line(4, 400)];
        let rows = [(1, 1, 100), (2, 2, 400), (4, 1, 399), (9, 1, 1)];
        assert_eq!(tally(&rows, &lines), Tally { effects: 5, cents: 900, lost: 1, doubled: 1, wrong: 2 });
    }
}
