//! Sends the messages of a plan, as far as it may.

use std::sync::Arc;

use idempotent_jobs::embedded::PacedProducer;
use idempotent_jobs::{Producer, SendError};
use tokio::sync::watch;
use tokio::task::JoinSet;

use crate::Failure;
use crate::jobs::Order;
use crate::place::Place;

/// The producer for the place.
#[derive(Clone)]
pub enum Sender {
    Servers(Producer),
    /// Waits for the reader: the embedded broker keeps only so much.
    Embedded(PacedProducer),
}

impl Sender {
    pub fn open(place: &Place) -> Result<Self, Failure> {
        Ok(match &place.embedded {
            Some((broker, _)) => Self::Embedded(broker.producer(&place.group)?),
            None => Self::Servers(Producer::from_env()?),
        })
    }

    async fn send(&self, order: &Order) -> Result<(), SendError> {
        match self {
            Self::Servers(producer) => producer.send(order).await,
            Self::Embedded(producer) => producer.send(order).await,
        }
        .map(drop)
    }
}

/// Sends what the plan names, in its order, up to the place that `may_send` gives.
pub async fn send(
    sender: Sender,
    orders: Arc<[Order]>,
    plan: Vec<usize>,
    mut may_send: watch::Receiver<usize>,
) -> Result<(), Failure> {
    const IN_FLIGHT: usize = 256;
    let mut in_flight = JoinSet::new();
    for (place, order) in plan.into_iter().enumerate() {
        may_send.wait_for(|limit| place < *limit).await?;
        if in_flight.len() >= IN_FLIGHT {
            in_flight.join_next().await.transpose()?.transpose()?;
        }
        let (sender, orders) = (sender.clone(), Arc::clone(&orders));
        in_flight.spawn(async move { sender.send(&orders[order]).await });
    }
    while let Some(sent) = in_flight.join_next().await {
        sent??;
    }
    Ok(())
}
