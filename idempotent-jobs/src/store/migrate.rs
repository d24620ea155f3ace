//! Our tables: which migrations are missing. Pure; the databases apply them.

use std::fmt::Write as _;

use sha2::{Digest, Sha256};

/// One step of our tables.
#[derive(Debug, Clone, Copy)]
pub(super) struct Migration {
    pub(super) version: i32,
    pub(super) sql: &'static str,
}

impl Migration {
    /// Of its text, whatever the line ends of the checkout it was built from.
    pub(super) fn checksum(&self) -> String {
        let digest = Sha256::digest(self.sql.replace("\r\n", "\n").as_bytes());
        digest.iter().fold(String::with_capacity(64), |mut hex, byte| {
            write!(hex, "{byte:02x}").expect("a String takes everything");
            hex
        })
    }
}

/// The migrations still to be applied, in order.
///
/// # Errors
/// Says why this program must not touch the tables it found.
pub(super) fn missing(known: &[Migration], applied: &[(i32, String)]) -> Result<Vec<Migration>, String> {
    for (version, checksum) in applied {
        let Some(migration) = known.iter().find(|migration| migration.version == *version) else {
            return Err(format!(
                "its tables are of version {version}, newer than this program knows ({}): \
                 take the program of that version; the older one cannot be gone back to, since messages were processed by the newer one",
                known.last().map_or(0, |migration| migration.version)
            ));
        };
        if migration.checksum() != *checksum {
            return Err(format!(
                "migration {version} was applied with another text than this program's: \
                 the tables were made by a changed build, and cannot be trusted to be what this one needs"
            ));
        }
    }
    let is_missing = |migration: &&Migration| applied.iter().all(|(version, _)| *version != migration.version);
    Ok(known.iter().filter(is_missing).copied().collect())
}

#[cfg(test)]
mod tests {
    use super::*;

    const KNOWN: [Migration; 2] = [Migration { version: 1, sql: "a\nb" }, Migration { version: 2, sql: "c" }];

    fn applied(upto: usize) -> Vec<(i32, String)> {
        KNOWN[..upto].iter().map(|migration| (migration.version, migration.checksum())).collect()
    }

    fn versions(applied: &[(i32, String)]) -> Vec<i32> {
        missing(&KNOWN, applied).unwrap().iter().map(|migration| migration.version).collect()
    }

    #[test]
    fn what_was_applied_is_left_out() {
        assert_eq!(versions(&applied(0)), [1, 2]);
        assert_eq!(versions(&applied(1)), [2]);
        assert_eq!(versions(&applied(2)), [0; 0]);
    }

    #[test]
    fn newer_tables_are_refused() {
        let mut rows = applied(2);
        rows.push((3, "x".into()));
        assert!(missing(&KNOWN, &rows).unwrap_err().contains("version 3, newer than this program knows (2)"));
    }

    #[test]
    fn a_changed_migration_is_refused() {
        let rows = [(1, "x".to_owned())];
        assert!(missing(&KNOWN, &rows).unwrap_err().contains("migration 1"));
    }

    #[test]
    fn line_ends_do_not_change_a_checksum() {
        assert_eq!(KNOWN[0].checksum(), Migration { version: 1, sql: "a\r\nb" }.checksum());
    }
}
