//! Shared transactions and batch jobs on the embedded broker and SQLite. PostgreSQL is in `real_groups.rs`.

mod groups;

use tests::database::Kind;

groups::cases!(Kind::Sqlite);
