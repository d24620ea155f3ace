//! Numbers for people.

/// `24409194` as `24,409,194`.
pub fn grouped(number: i64) -> String {
    let digits = number.unsigned_abs().to_string();
    let mut text = String::new();
    for (at, digit) in digits.chars().enumerate() {
        if at > 0 && (digits.len() - at).is_multiple_of(3) {
            text.push(',');
        }
        text.push(digit);
    }
    if number < 0 { format!("-{text}") } else { text }
}

/// A count as the signed number that JSON, SQL and people read.
pub fn counted(count: usize) -> i64 {
    i64::try_from(count).unwrap_or(i64::MAX)
}

#[cfg(test)]
mod tests {
    use super::grouped;

    #[test]
    fn digits_are_grouped_by_three() {
        let shown = [0, 7, 999, 1000, 24_409_194, -1000].map(grouped);
        assert_eq!(shown, ["0", "7", "999", "1,000", "24,409,194", "-1,000"]);
    }
}
