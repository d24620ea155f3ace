//! What an attempt knows beside its payload.

use std::any::{Any, TypeId};
use std::collections::HashMap;
use std::sync::Arc;

use crate::key::Key;
use crate::message::Message;

/// A transaction handle a job can be lent; its type names the database.
///
/// Implemented by `PgTx` and `SqliteTx`, and by nothing else.
#[diagnostic::on_unimplemented(
    message = "`{Self}` is not a transaction handle",
    label = "a job's first argument is `&mut PgTx` or `&mut SqliteTx`"
)]
pub trait Handle: Send + 'static {
    /// The handle's name as users write it: `PgTx`.
    const NAME: &'static str;
    /// The database's name in messages: `PostgreSQL`.
    const DATABASE: &'static str;
}

/// A handle whose database has more than one isolation level.
#[diagnostic::on_unimplemented(
    message = "`isolation` says nothing here: the handle's database has one isolation level",
    label = "leave `isolation` out"
)]
pub trait IsolationLevels: Handle {}

/// The transaction isolation of a job, as PostgreSQL names the levels.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, Default)]
pub enum Isolation {
    /// `READ COMMITTED`, the default.
    #[default]
    ReadCommitted,
    /// `REPEATABLE READ`.
    RepeatableRead,
    /// `SERIALIZABLE`.
    Serializable,
}

/// One attempt at one message for one job.
pub struct Context {
    pub(crate) job: &'static str,
    pub(crate) message: Arc<Message>,
    pub(crate) key: Key,
    pub(crate) attempt: u32,
    pub(crate) states: Arc<States>,
}

/// The values given to the worker by type, for [`State`](crate::State).
#[derive(Default)]
pub struct States(HashMap<TypeId, Box<dyn Any + Send + Sync>>);

impl States {
    /// Adds or replaces the value of type `T`.
    pub fn insert<T: Send + Sync + 'static>(&mut self, value: T) {
        self.0.insert(TypeId::of::<T>(), Box::new(value));
    }

    /// The value of type `T`, if one was given.
    pub fn get<T: Send + Sync + 'static>(&self) -> Option<&T> {
        self.0.get(&TypeId::of::<T>()).and_then(|value| value.downcast_ref())
    }
}
