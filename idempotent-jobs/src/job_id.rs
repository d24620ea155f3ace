//! The identity of a job whose payload has no business key.

use std::fmt;
use std::str::FromStr;
use std::time::{SystemTime, UNIX_EPOCH};

use serde::de::Error as _;
use serde::{Deserialize, Deserializer, Serialize, Serializer};
use uuid::{Builder, Uuid};

use crate::key::{KeyPart, KeyValue};

/// The identity of a job whose payload has no business key, as a field of the payload.
///
/// It is made once, when the *job* is made, and stored with whatever caused it: in the row of the
/// order, in the form that is sent again. Every resend then carries the same one. There is no way
/// to have one made on sending, no default, and a payload without the field does not decode: an id
/// drawn at send time would be another one in each resend, and the job would run again.
///
/// ```
/// use idempotent_jobs::{JobId, JobMessage};
///
/// #[derive(serde::Serialize, serde::Deserialize, JobMessage)]
/// #[message(topic = "mails", key = "id")]
/// struct Mail { id: JobId, to: String }
///
/// let mail = Mail { id: JobId::new(), to: "ada@example.org".into() };
/// # assert_eq!(mail.id.to_string().len(), 36);
/// ```
///
/// A UUID of version 7 ([RFC 9562](https://www.rfc-editor.org/rfc/rfc9562#section-5.7)): ids of
/// one time lie together in an index. On the wire it is the hyphenated text.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub struct JobId(Uuid);

impl JobId {
    /// A new identity, for a new job.
    #[expect(clippy::new_without_default, reason = "serde would fill a missing field by it")]
    pub fn new() -> Self {
        let now = SystemTime::now().duration_since(UNIX_EPOCH).unwrap_or_default();
        let millis = u64::try_from(now.as_millis()).unwrap_or(u64::MAX);
        Self(Builder::from_unix_timestamp_millis(millis, &rand::random()).into_uuid())
    }

    /// The identity that the job has elsewhere already, for instance its row's.
    pub fn from_uuid(id: Uuid) -> Self {
        Self(id)
    }

    /// As a UUID.
    pub fn as_uuid(&self) -> Uuid {
        self.0
    }
}

impl fmt::Display for JobId {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        self.0.hyphenated().fmt(f)
    }
}

impl FromStr for JobId {
    type Err = uuid::Error;

    fn from_str(text: &str) -> Result<Self, Self::Err> {
        Uuid::from_str(text).map(Self)
    }
}

impl Serialize for JobId {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        serializer.collect_str(self)
    }
}

impl<'de> Deserialize<'de> for JobId {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        let text = std::borrow::Cow::<'de, str>::deserialize(deserializer)?;
        text.parse().map_err(D::Error::custom)
    }
}

impl KeyPart for JobId {
    const KIND: &'static str = Uuid::KIND;

    fn value(&self) -> KeyValue<'_> {
        self.0.value()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn it_is_made_once_and_travels_as_text() {
        let id = JobId::new();
        assert_ne!(id, JobId::new());
        assert_eq!(id.as_uuid().get_version_num(), 7);
        let text = serde_json::to_string(&id).unwrap();
        assert_eq!(text, format!("\"{id}\""));
        assert_eq!(serde_json::from_str::<JobId>(&text).unwrap(), id);
        assert_eq!(id.value(), id.as_uuid().value());
    }

    #[test]
    fn key_03_a_payload_without_it_has_none() {
        #[derive(Debug, Deserialize)]
        struct Mail {
            #[expect(dead_code, reason = "only its absence matters")]
            id: JobId,
        }
        for payload in ["{}", r#"{"id":null}"#, r#"{"id":""}"#, r#"{"id":"1"}"#] {
            serde_json::from_str::<Mail>(payload).unwrap_err();
        }
    }
}
