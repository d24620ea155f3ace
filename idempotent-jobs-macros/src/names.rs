//! Which texts may name a topic, a job, an event.

use proc_macro2::Span;
use syn::LitStr;

/// A topic by Kafka's rules.
pub(crate) fn topic(text: &LitStr) -> syn::Result<String> {
    let topic = text.value();
    let why = if topic.is_empty() {
        "a topic has a name: write `topic = \"orders\"`".to_owned()
    } else if topic == "." || topic == ".." {
        format!("`{topic}` is not a legal topic: Kafka refuses `.` and `..`")
    } else if topic.len() > 249 {
        format!("this topic is {} characters long, and Kafka takes 249", topic.chars().count())
    } else if let Some(c) = stranger(&topic) {
        format!("`{topic}` is not a legal topic because of {c:?}: Kafka takes `A-Z a-z 0-9 . _ -`")
    } else {
        return Ok(topic);
    };
    Err(syn::Error::new(text.span(), why))
}

/// A job's name: it stands in the database, in metrics and in logs.
pub(crate) fn job(name: &str, span: Span) -> syn::Result<String> {
    let why = if name.is_empty() {
        "a job has a name: write `name = \"charge\"`, or leave `name` out to take the function's".to_owned()
    } else if name.chars().count() > 100 {
        format!(
            "this name is {} characters long, and a job's name at most 100: write a shorter `name = \"…\"`",
            name.chars().count()
        )
    } else if let Some(c) = stranger(name) {
        format!(
            "`{name}` cannot name a job because of {c:?}: write `name = \"…\"` with `A-Z a-z 0-9 _ \
             . -` only"
        )
    } else {
        return Ok(name.to_owned());
    };
    Err(syn::Error::new(span, why))
}

/// The value of an `event` header.
pub(crate) fn event(text: &LitStr) -> syn::Result<String> {
    let event = text.value();
    let why = if event.trim().is_empty() {
        "an event has a name: write `event = \"order_placed\"`, or leave `event` out to take all".to_owned()
    } else if event.trim() != event || event.chars().any(char::is_control) {
        format!("{event:?} is not the name of an event: remove control characters and the blanks around it")
    } else {
        return Ok(event);
    };
    Err(syn::Error::new(text.span(), why))
}

fn stranger(name: &str) -> Option<char> {
    name.chars().find(|c| !(c.is_ascii_alphanumeric() || "._-".contains(*c)))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn lit(text: &str) -> LitStr {
        LitStr::new(text, Span::call_site())
    }

    #[test]
    fn topics_follow_kafkas_rules() {
        for legal in ["orders", "a", "A.b_c-9", "...", &"x".repeat(249)] {
            assert_eq!(topic(&lit(legal)).expect(legal), legal);
        }
        for illegal in ["", ".", "..", "a b", "or/ders", "заказы", "a\n", &"x".repeat(250)] {
            topic(&lit(illegal)).expect_err(illegal);
        }
    }

    #[test]
    fn job_names_are_short_and_plain() {
        job(&"x".repeat(100), Span::call_site()).expect("100 characters");
        for illegal in ["", "a b", "é", &"x".repeat(101)] {
            job(illegal, Span::call_site()).expect_err(illegal);
        }
    }

    #[test]
    fn events_are_any_visible_text() {
        for legal in ["order.placed", "заказ", "a b"] {
            assert_eq!(event(&lit(legal)).expect(legal), legal);
        }
        for illegal in ["", " ", " a", "a\n", "a\0b"] {
            event(&lit(illegal)).expect_err(illegal);
        }
    }
}
