//! The copy of a dead letter that goes to a topic.

use std::borrow::Cow;

use super::Death;
use crate::key::{Key, KeyValue};
use crate::outgoing::{Due, Outgoing};

/// The message as it was, with the headers that say why it is there behind its own. Their names and the form of
/// the numbers, big-endian, are those of Spring Kafka's `DeadLetterPublishingRecoverer`, which most tools read.
///
/// Its dedup key is where the message lay, for the job that gave it up. It keeps no order: nothing is promised
/// among dead letters.
pub(super) fn copy(death: &Death<'_>, topic: &str) -> Outgoing {
    let (message, at) = (death.message, &death.message.coordinates);
    let job = death.job.unwrap_or_default();
    // What a database does not store in a text is in a header.
    let partition_key = message.key.as_ref().map(|key| String::from_utf8(key.clone()));
    let partition_key = partition_key.and_then(Result::ok).filter(|key| !key.contains('\0'));
    let odd_key = message.key.clone().filter(|_| partition_key.is_none());
    let own = message.headers.iter().map(|(name, value)| (name.to_owned(), value.map(<[u8]>::to_vec)));
    let why: [(&str, Option<Vec<u8>>); 12] = [
        ("kafka_dlt-original-topic", Some(at.topic.as_bytes().to_vec())),
        ("kafka_dlt-original-partition", Some(at.partition.to_be_bytes().to_vec())),
        ("kafka_dlt-original-offset", Some(at.offset.to_be_bytes().to_vec())),
        ("kafka_dlt-original-timestamp", message.timestamp.map(|at| at.to_be_bytes().to_vec())),
        ("kafka_dlt-original-consumer-group", Some(death.group.into())),
        ("kafka_dlt-exception-fqcn", Some(death.reason.as_str().into())),
        ("kafka_dlt-exception-message", Some(super::cleaned(death.error).into_bytes())),
        ("idempotent-jobs-job", death.job.map(Into::into)),
        ("idempotent-jobs-reason", Some(death.reason.as_str().into())),
        ("idempotent-jobs-attempts", Some(death.attempts.to_string().into_bytes())),
        ("idempotent-jobs-dedup-key", death.claim.map(|claim| claim.key.as_str().as_bytes().to_vec())),
        ("idempotent-jobs-original-key", odd_key),
    ];
    let why = why.into_iter().filter(|(_, value)| value.is_some()).map(|(name, value)| (name.to_owned(), value));
    Outgoing {
        topic: Cow::Owned(topic.to_owned()),
        key: Key::new([
            KeyValue::Text(Cow::Borrowed(&at.topic)),
            KeyValue::Int(at.partition.into()),
            KeyValue::Int(at.offset.into()),
            KeyValue::Text(Cow::Borrowed(job)),
        ]),
        key_parts: "topic,partition,offset,job".to_owned(),
        event: None,
        partition_key,
        payload: message.payload.clone(),
        headers: own.chain(why).collect(),
        due: Due::Now,
        ordered: false,
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::error::Reason;
    use crate::message::{Coordinates, Headers, Message};

    fn message(key: &[u8]) -> Message {
        let headers = vec![("trace".to_owned(), Some(b"1".to_vec())), ("trace".to_owned(), None)];
        Message {
            coordinates: Coordinates { topic: "orders".into(), partition: 3, offset: 17 },
            key: Some(key.to_vec()),
            payload: None,
            headers: Headers::new(headers),
            timestamp: Some(1_700_000_000_000),
        }
    }

    fn of(message: &Message) -> Outgoing {
        let death = Death {
            group: "billing",
            job: Some("charge"),
            message,
            claim: None,
            reason: Reason::Tombstone,
            error: "no\0payload",
            attempts: 0,
            copy_to: None,
        };
        copy(&death, "orders.dead")
    }

    fn header<'a>(record: &'a Outgoing, name: &str) -> Option<&'a [u8]> {
        record.headers.iter().find(|(its, _)| its == name)?.1.as_deref()
    }

    #[test]
    fn a_copy_is_the_message_and_says_why() {
        let record = of(&message(b"A1"));
        assert_eq!((record.topic(), record.key()), ("orders.dead", r#"["orders",3,17,"charge"]"#));
        assert_eq!((record.partition_key.as_deref(), record.payload()), (Some("A1"), None), "null stays null");
        assert_eq!(record.headers[0], ("trace".to_owned(), Some(b"1".to_vec())));
        assert_eq!(record.headers[1], ("trace".to_owned(), None));
        assert_eq!(header(&record, "kafka_dlt-original-partition"), Some(&[0, 0, 0, 3][..]));
        assert_eq!(header(&record, "kafka_dlt-original-offset"), Some(&[0, 0, 0, 0, 0, 0, 0, 17][..]));
        assert_eq!(header(&record, "idempotent-jobs-reason"), Some(&b"tombstone"[..]));
        assert_eq!(header(&record, "idempotent-jobs-original-key"), None);
    }

    #[test]
    fn a_key_that_is_no_text_is_whole_in_a_header() {
        for key in [&b"\xff\0"[..], b"a\0b"] {
            let record = of(&message(key));
            assert_eq!(record.partition_key, None);
            assert_eq!(header(&record, "idempotent-jobs-original-key"), Some(key));
        }
    }
}
