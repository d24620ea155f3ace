//! What is printed: text from outside without its control characters, ages, times, tables.

use std::io::{self, Write};
use std::time::{Duration, SystemTime, UNIX_EPOCH};

/// A word beside what was asked for, which may go to another program: nobody is left to hear of what cannot be printed.
pub(super) fn note(words: &str) {
    let _ = writeln!(io::stderr(), "{words}");
}

/// Whoever waits for this long is told what for.
const SILENCE: Duration = Duration::from_secs(2);

/// What a look finds; says on the error output that it takes its time, if it does.
pub(super) async fn patiently<T>(looking: impl Future<Output = T>) -> T {
    tokio::pin!(looking);
    tokio::select! {
        found = &mut looking => return found,
        () = tokio::time::sleep(SILENCE) => note("waiting for the database and the brokers to answer, for ten seconds each at most"),
    }
    looking.await
}

/// Text of one line that came from outside. A terminal obeys what is in a topic's name or an error: so
/// nothing that is not plainly visible is passed on.
pub(super) fn clean(text: &str) -> String {
    escaped(text, |_| false)
}

/// The same of several lines.
pub(super) fn lines(text: &str) -> String {
    escaped(text, |c| c == '\n')
}

fn escaped(text: &str, passes: impl Fn(char) -> bool) -> String {
    let mut clean = String::with_capacity(text.len());
    for c in text.chars() {
        if passes(c) || !is_hidden(c) { clean.push(c) } else { clean.extend(c.escape_default()) }
    }
    clean
}

/// Control characters, and those that turn the direction of text or have no width.
fn is_hidden(c: char) -> bool {
    c.is_control()
        || matches!(c, '\u{ad}' | '\u{61c}' | '\u{200b}'..='\u{200f}' | '\u{2028}'..='\u{202e}' | '\u{2060}'..='\u{206f}' | '\u{feff}')
}

/// The first so many characters of it.
pub(super) fn short(text: &str, most: usize) -> String {
    let text = clean(text);
    if text.chars().count() <= most { text } else { text.chars().take(most - 1).chain(['…']).collect() }
}

/// Bytes as text where they are text, in hex where they are not.
pub(super) fn bytes(bytes: &[u8]) -> String {
    match std::str::from_utf8(bytes) {
        Ok(text) => lines(text),
        Err(_) => format!("0x{}", crate::key::hex(bytes)),
    }
}

/// A time as UTC: `2026-11-30 03:12:45 UTC`.
pub(super) fn utc(time: SystemTime) -> String {
    let seconds = time.duration_since(UNIX_EPOCH).unwrap_or_default().as_secs();
    let (days, rest) = (seconds / 86_400, seconds % 86_400);
    let (year, month, day) = date(days);
    format!("{year:04}-{month:02}-{day:02} {:02}:{:02}:{:02} UTC", rest / 3_600, rest / 60 % 60, rest % 60)
}

/// The date that many days after 1970-01-01. Years begin in March here, so that the odd day is their last.
fn date(days: u64) -> (u64, u64, u64) {
    let days = days + 719_468;
    let (era, of_era) = (days / 146_097, days % 146_097);
    let year = (of_era - of_era / 1_460 + of_era / 36_524 - of_era / 146_096) / 365;
    let of_year = of_era - (365 * year + year / 4 - year / 100);
    let shifted = (5 * of_year + 2) / 153;
    let day = of_year - (153 * shifted + 2) / 5 + 1;
    let month = if shifted < 10 { shifted + 3 } else { shifted - 9 };
    (400 * era + year + u64::from(month <= 2), month, day)
}

/// Milliseconds since the Unix epoch.
pub(super) fn millis(time: SystemTime) -> u64 {
    time.duration_since(UNIX_EPOCH).map_or(0, |since| u64::try_from(since.as_millis()).unwrap_or(u64::MAX))
}

/// How long ago that was.
pub(super) fn age_of(time: SystemTime) -> String {
    age(time.elapsed().unwrap_or_default())
}

/// A duration in its largest unit: `3h`.
pub(super) fn age(age: Duration) -> String {
    let seconds = age.as_secs();
    match seconds {
        0..60 => format!("{seconds}s"),
        60..3_600 => format!("{}m", seconds / 60),
        3_600..172_800 => format!("{}h", seconds / 3_600),
        _ => format!("{}d", seconds / 86_400),
    }
}

/// `90s`, `15m`, `2h`, `7d`.
pub(super) fn parse_age(text: &str) -> Result<Duration, String> {
    let wrong = || format!("`{text}` is no duration: write a number and a unit, `90s`, `15m`, `2h` or `7d`");
    let end = text.find(|c: char| !c.is_ascii_digit()).ok_or_else(wrong)?;
    let number: u64 = text[..end].parse().map_err(|_| wrong())?;
    let unit = match &text[end..] {
        "s" => 1,
        "m" => 60,
        "h" => 3_600,
        "d" => 86_400,
        _ => return Err(wrong()),
    };
    number.checked_mul(unit).map(Duration::from_secs).ok_or_else(wrong)
}

/// Rows under a heading, each column as wide as it has to be.
pub(super) fn table<const N: usize>(
    out: &mut (dyn Write + Send),
    heading: [&str; N],
    rows: &[[String; N]],
) -> io::Result<()> {
    let width = |column: usize| {
        let cells = rows.iter().map(|row| row[column].chars().count());
        cells.chain([heading[column].len()]).max().unwrap_or(0)
    };
    let widths: [usize; N] = std::array::from_fn(width);
    let mut line = |cells: [&str; N]| {
        let padded: Vec<String> = cells.iter().zip(widths).map(|(cell, width)| format!("{cell:<width$}")).collect();
        writeln!(out, "{}", padded.join("  ").trim_end())
    };
    line(heading)?;
    rows.iter().try_for_each(|row| line(std::array::from_fn(|column| row[column].as_str())))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn sec_what_came_from_outside_cannot_speak_to_the_terminal() {
        assert_eq!(clean("a\x1b[2Jb\r\n\u{202e}ü"), "a\\u{1b}[2Jb\\r\\n\\u{202e}ü");
        assert_eq!(lines("a\nb\x07"), "a\nb\\u{7}");
        assert_eq!(bytes(&[0xff, 0]), "0xff00");
        assert_eq!(short("abcdef", 4), "abc…");
    }

    #[test]
    fn times_are_dates() {
        let at = |seconds| utc(UNIX_EPOCH + Duration::from_secs(seconds));
        assert_eq!(at(0), "1970-01-01 00:00:00 UTC");
        assert_eq!(at(951_782_399), "2000-02-28 23:59:59 UTC");
        assert_eq!(at(951_782_400), "2000-02-29 00:00:00 UTC");
        assert_eq!(at(1_795_999_965), "2026-11-30 00:52:45 UTC");
    }

    #[test]
    fn ages_are_read_and_written() {
        assert_eq!(parse_age("15m"), Ok(Duration::from_secs(900)));
        assert!(parse_age("15").is_err() && parse_age("m").is_err() && parse_age("99999999999999999999d").is_err());
        let ages = [59, 60, 3_600, 86_400, 200_000].map(|seconds| age(Duration::from_secs(seconds)));
        assert_eq!(ages, ["59s", "1m", "1h", "24h", "2d"]);
    }
}
