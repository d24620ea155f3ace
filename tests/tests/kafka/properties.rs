use std::time::Duration;

use idempotent_jobs::__private::kafka::{Producer, Properties, check};

use crate::recorder::embedded;

fn sane() -> Properties {
    Properties::new("localhost:9092").group("billing")
}

fn vars(pairs: &[(&str, &str)]) -> Properties {
    Properties::from_vars(pairs.iter().map(|(name, value)| ((*name).to_owned(), (*value).to_owned())))
}

#[test]
fn con_03_automatic_offsets_are_refused_by_name() {
    for name in ["enable.auto.commit", "enable.auto.offset.store", "auto.commit.enable"] {
        let problems = sane().set(name, "true").problems();
        assert_eq!(problems.len(), 1, "{problems:?}");
        assert!(problems[0].contains(name), "{problems:?}");
        assert!(sane().set(name, "false").problems().is_empty());
    }
}

#[test]
fn a_weaker_producer_is_refused() {
    for (name, value) in
        [("acks", "1"), ("request.required.acks", "0"), ("enable.idempotence", "false"), ("transactional.id", "x")]
    {
        assert!(sane().set(name, value).problems()[0].contains(name));
    }
    assert!(sane().set("acks", "-1").set("enable.idempotence", "true").problems().is_empty());
    let refused = Producer::builder().brokers("localhost:9092").property("acks", "1").build().unwrap_err();
    assert!(refused.to_string().contains("always `all`"), "{refused:?}");
}

#[test]
fn err_all_problems_are_reported_together() {
    let problems = vars(&[
        ("KAFKA_ENABLE_AUTO_COMMIT", "true"),
        ("KAFKA_NO_SUCH_THING", "1"),
        ("KAFKA_SECURITY_PROTOCOL", "sorcery"),
    ])
    .problems();
    let text = problems.join("\n");
    assert_eq!(problems.len(), 5, "{text}");
    for word in ["KAFKA_BROKERS", "KAFKA_GROUP_ID", "enable.auto.commit", "no.such.thing", "security.protocol"] {
        assert!(text.contains(word), "{word} in {text}");
    }
}

#[test]
fn options_of_ours_are_not_taken_as_properties() {
    let problems = sane().set("bootstrap.servers", "other:1").set("group.id", "other").problems().join("\n");
    assert!(problems.contains("KAFKA_BROKERS") && problems.contains("KAFKA_GROUP_ID"), "{problems}");
}

#[test]
fn the_consumer_protocol_leaves_the_timeouts_to_the_brokers() {
    let modern = sane().set("group.protocol", "consumer");
    assert!(modern.problems().is_empty(), "{:?}", modern.problems());
    let problems = modern.set("session.timeout.ms", "6000").problems();
    assert!(
        problems[0].contains("session.timeout.ms") && problems[0].contains("group.protocol=consumer"),
        "{problems:?}"
    );
}

#[test]
fn latest_is_allowed_with_a_warning() {
    let properties = sane().set("auto.offset.reset", "latest");
    assert!(properties.problems().is_empty());
    assert!(properties.warnings()[0].contains("never read"));
    assert!(sane().warnings().is_empty());
}

#[test]
fn secrets_are_never_printed() {
    let secrets = [
        "sasl.password",
        "ssl.key.password",
        "ssl.key.pem",
        "sasl.oauthbearer.client.secret",
        "sasl.oauthbearer.config",
        "my.token",
    ];
    for name in secrets {
        let properties = sane().set(name, "hunter2\0");
        let text = format!("{properties:?} {:?}", properties.problems());
        assert!(!text.contains("hunter2"), "{text}");
    }
    assert!(format!("{:?}", sane().set("sasl.username", "alice")).contains("alice"));
}

#[test]
fn the_environment_names_any_property() {
    let properties = vars(&[
        ("KAFKA_BROKERS", "b:1"),
        ("KAFKA_GROUP_ID", "g"),
        ("KAFKA_SESSION_TIMEOUT_MS", "7000"),
        ("KAFKA_LOG_LEVEL", "5"),
        ("PATH", "/bin"),
    ]);
    assert!(properties.problems().is_empty(), "{:?}", properties.problems());
    assert_eq!((properties.brokers(), properties.group_id()), ("b:1", Some("g")));
    assert!(format!("{properties:?}").contains("session.timeout.ms"));
}

#[test]
fn what_kubernetes_injects_is_ignored_with_a_warning() {
    let injected = [
        ("KAFKA_PORT", "tcp://10.0.0.1:9092"),
        ("KAFKA_PORT_9092_TCP_ADDR", "10.0.0.1"),
        ("KAFKA_SERVICE_HOST", "10.0.0.1"),
        ("KAFKA_SERVICE_PORT_CLIENT", "9092"),
        ("KAFKA_HEADLESS_SERVICE_HOST", "10.0.0.2"),
        ("KAFKA_HEADLESS_PORT", "tcp://10.0.0.2:9092"),
        ("KAFKA_HEADLESS_PORT_9092_TCP", "tcp://10.0.0.2:9092"),
    ];
    let properties = vars(&[&[("KAFKA_BROKERS", "b:1"), ("KAFKA_GROUP_ID", "g")], &injected[..]].concat());
    assert!(properties.problems().is_empty(), "{:?}", properties.problems());
    let warnings = properties.warnings().join("\n");
    for (name, _) in injected {
        assert!(warnings.contains(name), "{name} in {warnings}");
    }
}

#[test]
fn err_a_silent_broker_and_a_missing_topic_are_named() {
    let dead = Properties::new("127.0.0.1:1").group("g");
    let problem = check(&dead, &["orders".to_owned()], Duration::from_secs(1)).unwrap_err().join("\n");
    assert!(problem.contains("127.0.0.1:1"), "{problem}");

    let place = embedded(3);
    let properties = place.member();
    let topics = ["orders".to_owned(), "nowhere".to_owned(), "neither".to_owned()];
    let problems = check(&properties, &topics, Duration::from_secs(10)).unwrap_err();
    assert_eq!(problems.len(), 2, "{problems:?}");
    assert!(problems[0].contains("`nowhere` does not exist") && problems[0].contains("--create"), "{problems:?}");
    let again = check(&properties, &topics[..2], Duration::from_secs(10)).unwrap_err();
    assert!(again[0].contains("`nowhere`"), "looking must not create it: {again:?}");
    assert_eq!(check(&properties, &topics[..1], Duration::from_secs(10)).unwrap()["orders"], 3);
}

/// The last heartbeat may have been a while ago when a process falls asleep.
#[test]
fn con_08_a_member_may_be_silent_for_less_than_its_session() {
    assert_eq!(sane().silence(), Duration::from_secs(4));
    assert_eq!(sane().set("group.protocol", "consumer").silence(), Duration::from_secs(4));
    assert_eq!(sane().set("session.timeout.ms", "45000").silence(), Duration::from_secs(43));
    assert_eq!(sane().set("session.timeout.ms", "2000").silence(), Duration::from_secs(1));
}
