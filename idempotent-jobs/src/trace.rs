//! The trace that a message belongs to, passed on to the records that are born from it.

use std::future::Future;
use std::sync::OnceLock;

use crate::message::Headers;

/// The headers of W3C Trace Context.
const CARRIED: [&str; 2] = ["traceparent", "tracestate"];

/// Headers as a record has them.
type Pairs = Vec<(String, Option<Vec<u8>>)>;

tokio::task_local! {
    /// Those of the message whose handler is running.
    static OF_MESSAGE: Pairs;
}

/// Gives the headers of the current trace.
type Propagator = Box<dyn Fn() -> Vec<(String, String)> + Send + Sync>;

static PROPAGATOR: OnceLock<Propagator> = OnceLock::new();

/// Sets what gives a record to be sent or enqueued the headers of the current trace: once a process.
///
/// Without it, a record that is made while a handler runs takes over `traceparent` and
/// `tracestate` of the handler's message as they are, so that a trace goes on through the outbox. A
/// batch has no one message, and a task that the handler spawns is not its own: there nothing is taken over.
/// With it, nothing but what `propagate` returns is set, in whatever format it likes: from
/// OpenTelemetry, inject the current span's context by your propagator, for instance one of W3C
/// Trace Context and Baggage.
///
/// # Errors
/// It was set before; the first one stays.
pub fn set_propagator(propagate: impl Fn() -> Vec<(String, String)> + Send + Sync + 'static) -> Result<(), AlreadySet> {
    PROPAGATOR.set(Box::new(propagate)).map_err(|_| AlreadySet)
}

/// The propagator of this process was set before.
#[derive(Debug, Clone, Copy, PartialEq, Eq, thiserror::Error)]
#[error("the propagator was set before: it is set once a process")]
pub struct AlreadySet;

/// The headers of the current trace, for a record that is being made.
pub(crate) fn outgoing() -> Pairs {
    match PROPAGATOR.get() {
        Some(propagate) => propagate().into_iter().map(|(name, value)| (name, Some(value.into_bytes()))).collect(),
        None => OF_MESSAGE.try_with(Clone::clone).unwrap_or_default(),
    }
}

/// Runs a handler; what it makes belongs to the trace of its message.
pub(crate) async fn within<F: Future>(headers: &Headers, running: F) -> F::Output {
    let carried: Pairs = headers
        .iter()
        .filter(|(name, _)| CARRIED.contains(name))
        .map(|(name, value)| (name.to_owned(), value.map(<[u8]>::to_vec)))
        .collect();
    if carried.is_empty() { running.await } else { OF_MESSAGE.scope(carried, running).await }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[tokio::test]
    async fn obs_04_a_record_belongs_to_the_trace_of_the_message_it_is_born_from() {
        assert_eq!(outgoing(), []);
        let traced = |name: &str, value: &str| (name.to_owned(), Some(value.as_bytes().to_vec()));
        let trace = [traced("traceparent", "00-4bf9-00f0-01"), traced("tracestate", "a=1")];
        let mut headers = vec![traced("tenant", "acme")];
        headers.extend(trace.clone());
        assert_eq!(within(&Headers::new(headers), async { outgoing() }).await, trace);
        assert_eq!(within(&Headers::default(), async { outgoing() }).await, []);
        assert_eq!(outgoing(), []);
    }
}
