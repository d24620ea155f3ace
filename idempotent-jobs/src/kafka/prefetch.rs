//! What librdkafka fetches ahead, from one number of bytes.
//!
//! A short prefetch will do: messages wait in lanes, which are bounded by themselves. Half of the
//! bytes are for queued messages, a quarter for the answer on its way, an eighth for what
//! librdkafka keeps beside each message and does not count, and the rest is slack.

use std::collections::BTreeMap;

use super::properties::is_set;

/// Where nothing else is said.
pub(super) const DEFAULT: usize = 32 << 20;
/// Below it a quarter is less than the one answer that librdkafka always allows.
const LEAST: usize = 4 << 20;
/// What librdkafka keeps of a message beside its bytes.
const BESIDE: usize = 512;
/// librdkafka's own `message.max.bytes`, below which `fetch.max.bytes` is refused.
const MESSAGE: usize = 1_000_000;
/// What `receive.message.max.bytes` must be above `fetch.max.bytes`.
const FRAME: usize = 512;

/// Why so few bytes cannot do.
pub(super) fn problem(bytes: usize) -> Option<String> {
    (bytes < LEAST).then(|| {
        format!(
            "the memory budget is too small: half of it, {bytes} bytes, is for what is fetched ahead, and one answer \
             of a broker takes up to {MESSAGE}: give `memory_budget` at least {} MiB",
            (2 * LEAST) >> 20
        )
    })
}

/// The properties, without those that are set by name.
///
/// `receive.message.max.bytes` stays as it is: a batch that is larger than `fetch.max.bytes`
/// comes all the same, and a client that refuses to receive it stands still for ever.
pub(super) fn derived(bytes: usize, set: &BTreeMap<String, String>) -> Vec<(&'static str, String)> {
    let number = |name: &str| set.get(name).and_then(|value| value.trim().parse::<usize>().ok());
    let message = number("message.max.bytes").unwrap_or(MESSAGE);
    let receivable = number("receive.message.max.bytes").map_or(usize::MAX, |most| most.saturating_sub(FRAME));
    let most = |bytes: usize, most: usize| bytes.min(most);
    let all = [
        ("queued.max.messages.kbytes", most((bytes / 2) >> 10, 2_097_151).max(1)),
        ("queued.min.messages", (bytes / 8 / BESIDE).clamp(1_000, 100_000)),
        ("fetch.max.bytes", most(bytes / 4, 2_147_483_135).min(receivable).max(message)),
        ("fetch.message.max.bytes", (bytes / 128).clamp(64 << 10, 1 << 20)),
    ];
    all.into_iter().filter(|(name, _)| !is_set(set, name)).map(|(name, value)| (name, value.to_string())).collect()
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::kafka::Properties;

    const NAMES: [&str; 4] =
        ["queued.max.messages.kbytes", "queued.min.messages", "fetch.max.bytes", "fetch.message.max.bytes"];

    fn sane() -> Properties {
        Properties::new("localhost:1").group("g")
    }

    fn made(properties: &Properties) -> [String; 4] {
        let config = properties.consumer().expect("they are right");
        config.create_native_config().expect("librdkafka takes each of them");
        NAMES.map(|name| config.get(name).unwrap_or_default().to_owned())
    }

    #[test]
    fn one_number_bounds_what_is_fetched_ahead() {
        assert_eq!(made(&sane()), ["16384", "8192", "8388608", "262144"]);
        assert_eq!(made(&sane().prefetch(LEAST)), ["2048", "1024", "1048576", "65536"]);
        assert_eq!(made(&sane().prefetch(usize::MAX)), ["2097151", "100000", "2147483135", "1048576"]);
    }

    #[test]
    fn librdkafka_makes_a_client_of_every_size() {
        use rdkafka::consumer::BaseConsumer;
        let with = |name, value: &str| sane().set(name, value);
        let cases = [
            sane().prefetch(LEAST),
            sane().prefetch(usize::MAX),
            with("message.max.bytes", "20000000"),
            with("receive.message.max.bytes", "2000000"),
        ];
        for properties in cases {
            let made = properties.consumer().expect("they are right").create::<BaseConsumer>();
            assert!(made.is_ok(), "{properties:?}: {:?}", made.err());
        }
    }

    #[test]
    fn what_is_set_by_name_wins() {
        for (index, name) in NAMES.into_iter().enumerate() {
            let got = made(&sane().set(name, "1500000").prefetch(64 << 20));
            assert_eq!(got[index], "1500000", "{name}");
        }
        let aliased = sane().set("max.partition.fetch.bytes", "5000").consumer().expect("they are right");
        assert_eq!(aliased.get("fetch.message.max.bytes"), None);
    }

    #[test]
    fn too_few_bytes_are_reported_with_the_other_problems() {
        let problems = sane().prefetch(LEAST - 1).set("enable.auto.commit", "true").problems();
        assert_eq!(problems.len(), 2, "{problems:?}");
        assert!(problems[1].contains("memory_budget") && problems[1].contains("8 MiB"), "{problems:?}");
        assert!(sane().prefetch(LEAST).problems().is_empty());
    }
}
