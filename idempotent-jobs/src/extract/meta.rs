use super::Extract;
use crate::context::Context;
use crate::error::JobError;

/// What is known of the message and this attempt.
#[derive(Debug, Clone)]
#[non_exhaustive]
pub struct Meta {
    /// The topic it was read from.
    pub topic: String,
    /// The partition, from 0.
    pub partition: i32,
    /// The offset, from 0.
    pub offset: i64,
    /// Milliseconds since the Unix epoch, as the producer or the broker set it.
    pub timestamp: Option<i64>,
    /// 1 for the first attempt; attempts that failed for transient reasons do not count.
    pub attempt: u32,
    /// The key in its text form, the same on every attempt and redelivery.
    pub key: String,
}

impl Extract for Meta {
    fn extract(context: &Context) -> Result<Self, JobError> {
        let at = &context.message.coordinates;
        Ok(Self {
            topic: at.topic.to_string(),
            partition: at.partition,
            offset: at.offset,
            timestamp: context.message.timestamp,
            attempt: context.attempt,
            key: context.key.as_str().to_owned(),
        })
    }
}
