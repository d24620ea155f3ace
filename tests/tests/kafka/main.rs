//! Kafka's part by itself: the consumer with a scripted intake, the producer, the embedded broker.

mod consuming;
mod pacing;
mod producing;
mod properties;
mod rebalances;
mod recorder;
mod stopping;
