use sha2::{Digest, Sha256};

use super::Extract;
use crate::context::Context;
use crate::error::JobError;
use crate::key::{Key, KeyValue};

/// What is known of the message and this attempt.
#[derive(Debug, Clone)]
#[non_exhaustive]
pub struct Meta {
    /// The job's name.
    pub job: String,
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

impl Meta {
    /// A key for a call to the outside, which happens at least once: whoever is called has to
    /// recognise the repetition by it.
    ///
    /// It is the same on every attempt and redelivery, and differs from job to job, from message to
    /// message and from `purpose` to purpose, so that a job which makes two calls has a key for each.
    /// Changing the job's name, its key or the purpose changes it. It has the form of a UUID (version 8),
    /// which every provider takes.
    ///
    /// * Payment: Stripe takes it as the header `Idempotency-Key`, Adyen and PayPal (`PayPal-Request-Id`)
    ///   as well. Mind how long the provider remembers keys (Stripe: at least 24 hours): a
    ///   message that runs again later than that is a new call, so look for its result first.
    /// * Mail: providers that deduplicate take it as `Idempotency-Key` (Resend) or as a custom id; where
    ///   none is taken, put it into `Message-ID`, `<key@your-domain>`, which many servers deduplicate by.
    ///
    /// ```
    /// # use idempotent_jobs::testing;
    /// let meta = testing::meta("orders", r#"["A1","charge"]"#);
    /// let key = meta.external_key("charge-card");
    /// assert_ne!(key, meta.external_key("receipt-mail"));
    /// assert_eq!(key, meta.external_key("charge-card"));
    /// ```
    pub fn external_key(&self, purpose: &str) -> String {
        let parts = [self.job.as_str(), self.key.as_str(), purpose].map(|part| KeyValue::Text(part.into()));
        let digest = Sha256::digest(Key::new(parts).as_str());
        let mut half = [0; 16];
        half.copy_from_slice(&digest[..16]);
        uuid::Builder::from_custom_bytes(half).into_uuid().hyphenated().to_string()
    }
}

impl Extract for Meta {
    fn extract(context: &Context) -> Result<Self, JobError> {
        let at = &context.message.coordinates;
        Ok(Self {
            job: context.job.to_owned(),
            topic: at.topic.to_string(),
            partition: at.partition,
            offset: at.offset,
            timestamp: context.message.timestamp,
            attempt: context.attempt,
            key: context.key.as_str().to_owned(),
        })
    }
}

#[cfg(test)]
mod tests {
    /// Frozen: another key for the same call is another payment.
    #[test]
    fn side_01_the_key_for_the_outside_is_frozen() {
        let key = crate::testing::meta("orders", r#"["A1","charge"]"#).external_key("charge-card");
        assert_eq!(key, "add8adaf-89ca-8a7f-b260-76093fe30a3f");
    }
}
