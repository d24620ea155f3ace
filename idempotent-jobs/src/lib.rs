//! Kafka job handlers made idempotent by declaration. (contract)

#[doc(hidden)]
pub mod __private;

mod codec;
mod context;
mod engine;
mod error;
mod extract;
mod fingerprint;
mod job;
mod json;
mod kafka;
mod key;
mod message;
mod outgoing;
mod registry;
mod retry;
mod serve;
mod start;
mod store;
pub mod telemetry;
mod worker;

pub use crate::context::{Context, Handle, States};
pub use crate::error::{Error, JobError, JobResult, Reason, Terminal};
pub use crate::extract::{Extract, Meta, State};
#[cfg(feature = "embedded")]
pub use crate::kafka::embedded;
pub use crate::kafka::{Delivery, Producer, ProducerBuilder, SendError, SendErrorKind, Undelivered};
pub use crate::key::{KeyPart, KeyValue};
pub use crate::message::{Coordinates, Headers, Message};
pub use crate::outgoing::JobMessage;
pub use crate::store::Savepoint;
#[cfg(feature = "postgres")]
pub use crate::store::{PgTx, postgres_migrations_sql};
#[cfg(feature = "sqlite")]
pub use crate::store::{SqliteTx, sqlite_migrations_sql};
pub use crate::worker::{Builder, Worker, run};
pub use idempotent_jobs_macros::{JobMessage, KeyPart, idempotent_job};

/// Everything a file with jobs needs.
pub mod prelude {
    pub use crate::{
        Extract, Headers, JobError, JobMessage, JobResult, KeyPart, Meta, State, Terminal, idempotent_job,
    };

    #[cfg(feature = "postgres")]
    pub use crate::PgTx;
    #[cfg(feature = "sqlite")]
    pub use crate::SqliteTx;
}
