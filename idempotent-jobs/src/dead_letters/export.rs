//! Dead letters as JSON lines.

use std::io::{self, Write};
use std::time::{SystemTime, UNIX_EPOCH};

use serde_json::json;

use super::{DeadLetter, DeadLetters, Filter, Pages};
use crate::error::Error;
use crate::key::hex;

impl DeadLetters {
    /// Writes those that fit as JSON, one a line, with everything of their messages; how many. Payloads, keys and header
    /// values are in hex.
    ///
    /// # Errors
    /// [`Error::Database`], or what `out` says of being written to.
    pub async fn export(&self, filter: &Filter, out: &mut (dyn Write + Send)) -> Result<u64, Error> {
        let mut written = 0;
        let mut pages = Pages::new(filter);
        while let Some(page) = pages.next(&*self.store).await? {
            for letter in &page {
                line(letter, out).map_err(|error| Error::Output(error.to_string()))?;
                written += 1;
            }
        }
        Ok(written)
    }
}

/// Bytes are in hex, since they need not be text, and null where they are null. Not a type that is
/// `Serialize`: the compiler would offer it to whoever forgets that of a message.
fn line(letter: &DeadLetter, out: &mut (dyn Write + Send)) -> io::Result<()> {
    let (message, at) = (&letter.message, &letter.message.coordinates);
    let headers: Vec<_> = message.headers.iter().map(|(name, value)| (name, value.map(hex))).collect();
    let line = json!({
        "id": letter.id,
        "job": letter.job,
        "group": letter.group,
        "topic": *at.topic,
        "partition": at.partition,
        "offset": at.offset,
        "timestamp": message.timestamp,
        "message_key_hex": message.key.as_deref().map(hex),
        "payload_hex": message.payload.as_deref().map(hex),
        "headers_hex": headers,
        "key": letter.key,
        "reason": letter.reason,
        "error": letter.error,
        "attempts": letter.attempts,
        "state": letter.state.as_str(),
        "died_at_ms": millis(letter.died_at),
        "changed_at_ms": millis(letter.changed_at),
        "changed_by": letter.changed_by,
    });
    serde_json::to_writer(&mut *out, &line)?;
    out.write_all(b"\n")
}

fn millis(time: SystemTime) -> u64 {
    time.duration_since(UNIX_EPOCH).map_or(0, |since| u64::try_from(since.as_millis()).unwrap_or(u64::MAX))
}
