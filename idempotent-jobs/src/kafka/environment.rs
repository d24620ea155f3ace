//! Properties from the environment: `KAFKA_BROKERS`, `KAFKA_GROUP_ID`, `KAFKA_X_Y=…` as `x.y`.

use super::properties::{Properties, known};

impl Properties {
    /// Reads the environment of the process.
    pub fn from_env() -> Self {
        let vars =
            std::env::vars_os().filter_map(|(name, value)| Some((name.into_string().ok()?, value.into_string())));
        let (mut pairs, mut unreadable) = (Vec::new(), Vec::new());
        for (name, value) in vars.filter(|(name, _)| name.starts_with(PREFIX)) {
            match value {
                Ok(value) => pairs.push((name, value)),
                Err(_) => unreadable.push(format!("the environment variable {name} is not UTF-8")),
            }
        }
        let mut properties = Self::from_vars(pairs);
        properties.problems.extend(unreadable);
        properties
    }

    /// Reads pairs as of an environment; names that do not begin with `KAFKA_` are ignored.
    pub fn from_vars(vars: impl IntoIterator<Item = (String, String)>) -> Self {
        vars.into_iter().fold(Self::default(), |properties, (name, value)| properties.take(&name, value))
    }

    fn take(mut self, variable: &str, value: String) -> Self {
        let Some(rest) = variable.strip_prefix(PREFIX) else { return self };
        if from_kubernetes(rest, &value) {
            self.warnings.push(format!(
                "{variable} is ignored: Kubernetes sets it for a service whose name begins with `kafka` \
                 (`enableServiceLinks: false` in the pod turns that off)"
            ));
            return self;
        }
        match rest {
            "BROKERS" => self.with_brokers(value),
            "GROUP_ID" => self.group(value),
            _ => self.set(property(rest), value),
        }
    }
}

const PREFIX: &str = "KAFKA_";

/// `SASL_USERNAME` is `sasl.username`; the few names with an underscore of their own keep it.
fn property(rest: &str) -> String {
    let underscored = rest.to_ascii_lowercase();
    let dotted = underscored.replace('_', ".");
    if !known(&dotted) && known(&underscored) { underscored } else { dotted }
}

/// Kubernetes' and Docker's variables of a linked service called `kafka` or `kafka-…`.
fn from_kubernetes(rest: &str, value: &str) -> bool {
    let linked = value.starts_with("tcp://") || value.starts_with("udp://");
    rest == "PORT"
        || rest.starts_with("PORT_")
        || rest.starts_with("SERVICE_")
        || rest.ends_with("_SERVICE_HOST")
        || rest.contains("_SERVICE_PORT")
        || (rest.ends_with("_PORT") && linked)
        || rest.split_once("_PORT_").is_some_and(|(_, port)| port.starts_with(|c: char| c.is_ascii_digit()))
}
