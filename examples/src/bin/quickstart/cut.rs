//! Foreign text on its way to a terminal.

const LONGEST: usize = 80;

/// At most 80 characters, none of which can steer a terminal.
pub fn cut(text: &str) -> String {
    let shown = text.chars().take(LONGEST).map(|c| if c.is_control() { '\u{fffd}' } else { c });
    let rest = if text.chars().nth(LONGEST).is_some() { "…" } else { "" };
    shown.chain(rest.chars()).collect()
}
