//! Dead letters as JSON lines.

use std::io::{self, Write};
use std::time::{SystemTime, UNIX_EPOCH};

use serde::Serialize;

use super::{DeadLetter, DeadLetters, Filter, Pages};
use crate::error::Error;
use crate::key::hex;

/// One line. Bytes are in hex, since they need not be text, and null where they are null.
#[derive(Serialize)]
struct Line<'a> {
    id: i64,
    job: Option<&'a str>,
    group: &'a str,
    topic: &'a str,
    partition: i32,
    offset: i64,
    timestamp: Option<i64>,
    message_key_hex: Option<String>,
    payload_hex: Option<String>,
    headers_hex: Vec<(&'a str, Option<String>)>,
    key: Option<&'a str>,
    reason: &'a str,
    error: &'a str,
    attempts: u32,
    state: &'a str,
    died_at_ms: u64,
    changed_at_ms: u64,
    changed_by: Option<&'a str>,
}

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

fn line(letter: &DeadLetter, out: &mut (dyn Write + Send)) -> io::Result<()> {
    let (message, at) = (&letter.message, &letter.message.coordinates);
    let line = Line {
        id: letter.id,
        job: letter.job.as_deref(),
        group: &letter.group,
        topic: &at.topic,
        partition: at.partition,
        offset: at.offset,
        timestamp: message.timestamp,
        message_key_hex: message.key.as_deref().map(hex),
        payload_hex: message.payload.as_deref().map(hex),
        headers_hex: message.headers.iter().map(|(name, value)| (name, value.map(hex))).collect(),
        key: letter.key.as_deref(),
        reason: &letter.reason,
        error: &letter.error,
        attempts: letter.attempts,
        state: letter.state.as_str(),
        died_at_ms: millis(letter.died_at),
        changed_at_ms: millis(letter.changed_at),
        changed_by: letter.changed_by.as_deref(),
    };
    serde_json::to_writer(&mut *out, &line)?;
    out.write_all(b"\n")
}

fn millis(time: SystemTime) -> u64 {
    time.duration_since(UNIX_EPOCH).map_or(0, |since| u64::try_from(since.as_millis()).unwrap_or(u64::MAX))
}
