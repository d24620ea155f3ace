//! As much of PostgreSQL's protocol as it takes to see a COMMIT and its answer.

/// The client's messages, cut from its stream.
#[derive(Default)]
pub(super) struct Requests {
    buffer: Vec<u8>,
    started: bool,
}

const STARTUP: [i32; 2] = [196_608, 196_610];

impl Requests {
    /// Takes what was read; whether a message that commits ended in it.
    pub fn take(&mut self, bytes: &[u8]) -> bool {
        self.buffer.extend_from_slice(bytes);
        let mut commits = false;
        while let Some((tag, body)) = self.next() {
            commits |= match tag {
                b'Q' => is_commit(&body),
                // Name, then text.
                b'P' => body.splitn(2, |byte| *byte == 0).nth(1).is_some_and(is_commit),
                _ => false,
            };
        }
        commits
    }

    fn next(&mut self) -> Option<(u8, Vec<u8>)> {
        let tagged = usize::from(self.started);
        let length = self.buffer.get(tagged..tagged + 4)?;
        let length = i32::from_be_bytes(length.try_into().ok()?);
        let end = tagged + usize::try_from(length).ok()?;
        if self.buffer.len() < end {
            return None;
        }
        let message: Vec<u8> = self.buffer.drain(..end).collect();
        let body = message[tagged + 4..].to_vec();
        if self.started {
            return Some((message[0], body));
        }
        // Before the start-up message come untagged requests for encryption.
        let code = body.get(..4).and_then(|code| code.try_into().ok()).map(i32::from_be_bytes);
        self.started = code.is_some_and(|code| STARTUP.contains(&code));
        Some((0, body))
    }
}

/// Whether one of the statements in this text is a COMMIT.
fn is_commit(text: &[u8]) -> bool {
    let text = String::from_utf8_lossy(text).to_ascii_uppercase();
    let text = text.split('\0').next().unwrap_or_default();
    text.split(';').any(|statement| statement.trim_start().starts_with("COMMIT"))
}

/// The server's answer to an intercepted COMMIT.
#[derive(Default)]
pub(super) struct Answer {
    withheld: bool,
    buffer: Vec<u8>,
}

impl Answer {
    /// From now on the client hears nothing.
    pub fn withhold(&mut self) {
        self.withheld = true;
    }

    pub fn is_withheld(&self) -> bool {
        self.withheld
    }

    /// Takes what was read; the tags of its completed commands once the answer is whole.
    pub fn take(&mut self, bytes: &[u8]) -> Option<String> {
        self.buffer.extend_from_slice(bytes);
        let mut rest = &self.buffer[..];
        let mut tags = Vec::new();
        while let [tag, a, b, c, d, ..] = *rest {
            let length = usize::try_from(i32::from_be_bytes([a, b, c, d])).ok()?;
            let body = rest.get(5..=length)?;
            match tag {
                b'C' => tags.push(String::from_utf8_lossy(body).trim_end_matches('\0').to_owned()),
                b'E' => tags.push("ERROR".to_owned()),
                b'Z' => return Some(tags.join(", ")),
                _ => {}
            }
            rest = &rest[length + 1..];
        }
        None
    }
}

#[cfg(test)]
mod tests {
    use super::{Answer, Requests};

    fn query(sql: &str) -> Vec<u8> {
        let length = i32::try_from(sql.len() + 5).expect("short");
        [b"Q".as_slice(), &length.to_be_bytes(), sql.as_bytes(), b"\0"].concat()
    }

    fn started() -> Requests {
        let mut requests = Requests::default();
        let encryption = [8i32.to_be_bytes(), 80_877_103i32.to_be_bytes()].concat();
        let startup = [8i32.to_be_bytes(), 196_608i32.to_be_bytes()].concat();
        assert!(!requests.take(&encryption));
        assert!(!requests.take(&startup));
        requests
    }

    #[test]
    fn a_commit_is_seen_however_it_is_cut() {
        for sql in ["COMMIT", "commit ", "RELEASE SAVEPOINT s; COMMIT"] {
            let bytes = query(sql);
            for at in 0..bytes.len() {
                let mut requests = started();
                let first = requests.take(&bytes[..at]);
                assert!(!first && requests.take(&bytes[at..]), "{sql} cut at {at}");
            }
        }
        assert!(!started().take(&query("SELECT 'COMMIT'")));
    }

    #[test]
    fn an_answer_is_whole_when_the_server_is_ready() {
        let mut answer = Answer::default();
        assert_eq!(answer.take(b"C\0\0\0\x0bCOMMIT\0"), None);
        assert_eq!(answer.take(b"Z\0\0\0\x05I").as_deref(), Some("COMMIT"));
    }
}
