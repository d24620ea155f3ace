use super::{Extract, State};
use crate::context::{Context, States};
use crate::error::JobError;

/// A further argument of a batch job, made from the contexts of all its messages.
///
/// Of every [extractor](Extract), your own included, a batch job takes a `Vec`: one for each
/// message, in the order of the payloads. What is the same for all comes once: [`State`].
#[diagnostic::on_unimplemented(
    message = "`{Self}` is not an extractor of a batch job",
    label = "in a batch job write `Vec<{Self}>`: one for each job",
    note = "after the handle and the payloads a batch job may take `State<T>`, `Vec<Headers>`, `Vec<Meta>`, or a `Vec` of a type that implements `Extract`"
)]
pub trait ExtractBatch: Sized + Send {
    /// Checked when the worker starts: what this extractor needs of it.
    ///
    /// # Errors
    /// Says what is missing and how to provide it; the worker then does not start.
    fn check(states: &States) -> Result<(), String> {
        let _ = states;
        Ok(())
    }

    /// Makes the argument from the contexts of the batch, of which there is at least one.
    ///
    /// # Errors
    /// An error fails the attempt before the handler is entered.
    fn extract_batch(contexts: &[Context]) -> Result<Self, JobError>;
}

impl<T: Extract> ExtractBatch for Vec<T> {
    fn check(states: &States) -> Result<(), String> {
        T::check(states)
    }

    fn extract_batch(contexts: &[Context]) -> Result<Self, JobError> {
        contexts.iter().map(T::extract).collect()
    }
}

impl<T: Clone + Send + Sync + 'static> ExtractBatch for State<T> {
    fn check(states: &States) -> Result<(), String> {
        <Self as Extract>::check(states)
    }

    fn extract_batch(contexts: &[Context]) -> Result<Self, JobError> {
        Self::extract(contexts.first().expect("a batch has at least one message"))
    }
}
