//! Extractors: what a job may ask for after its payload.

mod batch;
mod headers;
mod meta;
mod state;

pub use self::batch::ExtractBatch;
pub use self::meta::Meta;
pub use self::state::State;

use crate::context::{Context, States};
use crate::error::JobError;

/// A further argument of a job, made from the attempt's context.
///
/// Write your own by implementing [`extract`](Self::extract) over other extractors.
#[diagnostic::on_unimplemented(
    message = "`{Self}` is not an extractor",
    label = "not an extractor",
    note = "after the handle and the payload a job may take `State<T>`, `Headers`, `Meta`, or a type that implements `Extract`"
)]
pub trait Extract: Sized + Send {
    /// Checked when the worker starts: what this extractor needs of it.
    ///
    /// # Errors
    /// Says what is missing and how to provide it; the worker then does not start.
    fn check(states: &States) -> Result<(), String> {
        let _ = states;
        Ok(())
    }

    /// Makes the argument.
    ///
    /// # Errors
    /// An error fails the attempt before the handler is entered.
    fn extract(context: &Context) -> Result<Self, JobError>;
}
