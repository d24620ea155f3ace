//! `30s`, and `100ms..30s`.

use syn::LitStr;

/// An attempt holds a transaction open, and PostgreSQL counts timeouts in 31 bits.
const LONGEST_MS: u64 = 24 * 60 * 60 * 1000;

/// The waits between attempts.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct Backoff {
    pub(crate) min_ms: u64,
    pub(crate) max_ms: u64,
}

/// The budget of an attempt, in milliseconds.
pub(crate) fn timeout(text: &LitStr) -> syn::Result<u64> {
    millis(&text.value()).map_err(|why| syn::Error::new(text.span(), format!("{why}: write `timeout = \"30s\"`")))
}

/// The waits between attempts.
pub(crate) fn backoff(text: &LitStr) -> syn::Result<Backoff> {
    range(&text.value()).map_err(|why| syn::Error::new(text.span(), format!("{why}: write `backoff = \"100ms..30s\"`")))
}

fn range(text: &str) -> Result<Backoff, String> {
    let Some((min, max)) = text.split_once("..") else {
        return Err(format!("`{text}` has no `..` between the shortest and the longest wait"));
    };
    let backoff = Backoff { min_ms: millis(min)?, max_ms: millis(max)? };
    if backoff.min_ms > backoff.max_ms {
        return Err(format!("the shortest wait, `{}`, is longer than the longest, `{}`", min.trim(), max.trim()));
    }
    Ok(backoff)
}

fn millis(text: &str) -> Result<u64, String> {
    let text = text.trim();
    let digits = text.bytes().take_while(u8::is_ascii_digit).count();
    let (number, unit) = text.split_at(digits);
    let unit_ms = match unit.trim_start() {
        "ms" => 1,
        "s" => 1000,
        "m" => 60 * 1000,
        "h" => 60 * 60 * 1000,
        _ => return Err(unreadable(text)),
    };
    if number.is_empty() {
        return Err(unreadable(text));
    }
    let ms = number.parse::<u64>().ok().and_then(|number| number.checked_mul(unit_ms));
    match ms {
        Some(0) => Err(format!("`{text}` is no time at all; the least is `1ms`")),
        Some(ms) if ms <= LONGEST_MS => Ok(ms),
        _ => Err(format!("`{text}` is too long; the most is `24h`")),
    }
}

fn unreadable(text: &str) -> String {
    format!("`{text}` is not a duration (a whole number with `ms`, `s`, `m` or `h`)")
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn durations_are_whole_numbers_with_a_unit() {
        let read: Vec<_> = ["1ms", "30s", " 5 m ", "24h", "007s"].map(millis).into();
        assert_eq!(read, [Ok(1), Ok(30_000), Ok(300_000), Ok(86_400_000), Ok(7_000)]);
    }

    #[test]
    fn anything_else_is_refused_by_its_own_text() {
        let endless = "9".repeat(10_000) + "h";
        for text in ["", "s", "30", "1.5s", "-1s", "+1s", "30 sec", "٣s", "1s2s", "0ms", "25h", &endless] {
            let why = millis(text).expect_err(text);
            assert!(why.contains(&format!("`{text}`")), "{why}");
        }
    }

    #[test]
    fn a_backoff_is_a_rising_range() {
        assert_eq!(range("100ms..30s"), Ok(Backoff { min_ms: 100, max_ms: 30_000 }));
        assert_eq!(range("1s .. 1s"), Ok(Backoff { min_ms: 1000, max_ms: 1000 }));
        for text in ["", "..", "1s", "1s..", "..1s", "1s..=2s", "1s...2s", "2s..1s", "0s..1s"] {
            range(text).expect_err(text);
        }
    }
}
