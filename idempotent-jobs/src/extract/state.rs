use std::any::type_name;

use super::Extract;
use crate::context::{Context, States};
use crate::error::JobError;

/// A clone of a value given to the worker with `Worker::builder().state(value)`.
///
/// Its writes are not part of the job's transaction: a pool in here is *at least once*.
#[derive(Debug, Clone)]
pub struct State<T>(pub T);

impl<T: Clone + Send + Sync + 'static> Extract for State<T> {
    fn check(states: &States) -> Result<(), String> {
        match states.get::<T>() {
            Some(_) => Ok(()),
            None => Err(missing::<T>()),
        }
    }

    fn extract(context: &Context) -> Result<Self, JobError> {
        match context.states.get::<T>() {
            Some(value) => Ok(Self(value.clone())),
            None => Err(JobError::terminal(missing::<T>())),
        }
    }
}

fn missing<T>() -> String {
    let name = type_name::<T>();
    format!("no state of type `{name}`: give one with `.state(…)` on the `Worker`")
}
