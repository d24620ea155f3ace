//! The result, for people and for programs.

use std::fmt;

use serde::Serialize;

use crate::format::grouped;

/// What happened. Its fields in this order are the line of `--json`.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
pub struct Summary {
    pub orders: u64,
    pub sent: u64,
    pub delivered: u64,
    pub duplicates: u64,
    pub kills: u64,
    pub cents: i64,
    pub lost: u64,
    pub doubled: u64,
    /// The sum of the file.
    #[serde(skip)]
    pub expected_cents: i64,
    /// Rows that are of no order, or of another amount.
    #[serde(skip)]
    pub wrong: u64,
}

impl Summary {
    /// Every order has its effect, once and of its amount.
    pub fn is_right(&self) -> bool {
        self.lost == 0 && self.doubled == 0 && self.wrong == 0 && self.cents == self.expected_cents
    }

    /// As one line of JSON.
    pub fn json(&self) -> Result<String, crate::Failure> {
        Ok(serde_json::to_string(self)?)
    }
}

impl fmt::Display for Summary {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let mut row = |name, count: i64, remark: &str| writeln!(f, "{name:<20}{:>14}  {remark}", grouped(count));
        let count = |count: u64| i64::try_from(count).unwrap_or(i64::MAX);
        row("orders", count(self.orders), "in the file")?;
        row("sent", count(self.sent), "every order, and a third of them again")?;
        row("delivered", count(self.delivered), "and settled; see --help")?;
        row("duplicates skipped", count(self.duplicates), "resent, or delivered again after a kill")?;
        row("kills", count(self.kills), "of the worker by SIGKILL, while it had work")?;
        let equal = if self.cents == self.expected_cents { "as in the file" } else { "NOT as in the file" };
        let amount = format!("in cents, {equal} ({})", grouped(self.expected_cents));
        row("total", self.cents, &amount)?;
        row("lost", count(self.lost), "")?;
        row("doubled", count(self.doubled), "")?;
        if self.wrong > 0 {
            row("wrong", count(self.wrong), "effects of no order, or of another amount")?;
        }
        write!(
            f,
            "\n{}",
            if self.is_right() { "Every order had its effect exactly once." } else { "THE PROMISE WAS BROKEN." }
        )
    }
}

#[cfg(test)]
mod tests {
    use super::Summary;

    fn summary() -> Summary {
        Summary {
            orders: 3,
            sent: 4,
            delivered: 5,
            duplicates: 2,
            kills: 3,
            cents: 6,
            lost: 0,
            doubled: 0,
            expected_cents: 6,
            wrong: 0,
        }
    }

    #[test]
    fn the_json_line_has_the_documented_fields_in_order() {
        let line = r#"{"orders":3,"sent":4,"delivered":5,"duplicates":2,"kills":3,"cents":6,"lost":0,"doubled":0}"#;
        assert_eq!(summary().json().unwrap(), line);
    }

    #[test]
    fn anything_lost_doubled_or_of_another_amount_is_not_right() {
        assert!(summary().is_right());
        for broken in [
            Summary { lost: 1, ..summary() },
            Summary { doubled: 1, ..summary() },
            Summary { wrong: 1, ..summary() },
            Summary { cents: 5, ..summary() },
        ] {
            assert!(!broken.is_right());
            assert!(broken.to_string().contains("BROKEN"));
        }
    }
}
