//! Which statements a handler may not send, and which leave something behind in the session.
//!
//! A scanner, not a parser: it knows comments, quotes and where a statement ends, and looks at
//! words. What it lets through by mistake is still caught by the guard; it exists to say why.

/// How a database quotes and comments.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Syntax {
    /// `E'…'`, `$tag$…$tag$`, nested comments.
    Postgres,
    /// `[…]`, `` `…` ``, comments that do not nest.
    Sqlite,
}

/// What may be done with a string of statements. The later one weighs more.
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord)]
pub(super) enum Verdict {
    /// Send it.
    Clean,
    /// Send it, and let no other job into the transaction.
    Lasts,
    /// Send it, and do not give the session to another job.
    Taints,
    /// It ends or begins a transaction by these words.
    Refused(String),
}

/// Judges every statement of `sql`.
///
/// It runs for each statement of each message, and so takes one allocation, not one a word.
pub(super) fn inspect(sql: &str, syntax: Syntax) -> Verdict {
    let mut verdict = Verdict::Clean;
    let mut statement = Vec::with_capacity(64);
    let mut body = Body::None;
    for token in (Scanner { rest: sql, syntax }) {
        body = body.after(&statement, token, syntax);
        if token == Token::Mark(';') && body == Body::None {
            verdict = verdict.max(judge(&statement, syntax));
            statement.clear();
        } else {
            statement.push(token);
        }
    }
    verdict.max(judge(&statement, syntax))
}

fn judge(statement: &[Token<'_>], syntax: Syntax) -> Verdict {
    if let Some(words) = ends_transaction(statement) {
        Verdict::Refused(words)
    } else if leaves_state(statement, syntax) {
        Verdict::Taints
    } else if lasts(statement) {
        Verdict::Lasts
    } else {
        Verdict::Clean
    }
}

/// Whether a string of statements opens a savepoint by name.
pub(super) fn opens_savepoint(sql: &str, syntax: Syntax) -> bool {
    let mut is_first = true;
    for token in (Scanner { rest: sql, syntax }) {
        if is_first && token.is("SAVEPOINT") {
            return true;
        }
        is_first = token == Token::Mark(';');
    }
    false
}

/// What a refused statement is answered with.
pub(super) fn refusal(words: &str) -> String {
    format!(
        "`{words}` is refused: the transaction lent to a job holds the claim of its key, and only the worker ends it, \
         after the handler: return Ok(()) to commit and an error to roll back. \
         A part that may be undone belongs in a savepoint: `let mut part = tx.begin().await?`"
    )
}

/// A piece of SQL as far as it matters here.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Token<'a> {
    Word(&'a str),
    Mark(char),
    /// A quoted text, name or other literal.
    Quoted,
}

impl Token<'_> {
    /// Whether it is this word, in whatever case.
    fn is(&self, word: &str) -> bool {
        matches!(self, Self::Word(found) if found.eq_ignore_ascii_case(word))
    }
}

/// The words that end or begin a transaction, if the statement starts with such.
fn ends_transaction(statement: &[Token<'_>]) -> Option<String> {
    let is = |at: usize, word: &str| statement.get(at).is_some_and(|token| token.is(word));
    if let Some(word) = ["BEGIN", "COMMIT", "END", "ABORT"].into_iter().find(|word| is(0, word)) {
        Some(word.to_owned())
    } else if is(0, "START") {
        Some("START TRANSACTION".to_owned())
    } else if is(0, "PREPARE") {
        is(1, "TRANSACTION").then(|| "PREPARE TRANSACTION".to_owned())
    } else if is(0, "ROLLBACK") {
        let noise = usize::from(is(1, "WORK") || is(1, "TRANSACTION"));
        let words = if is(1 + noise, "PREPARED") { "ROLLBACK PREPARED" } else { "ROLLBACK" };
        (!is(1 + noise, "TO")).then(|| words.to_owned())
    } else {
        None
    }
}

/// Whether the rest of the transaction is another after the statement: settings, cursors and
/// savepoints by name.
fn lasts(statement: &[Token<'_>]) -> bool {
    let starts = |word: &str| statement.first().is_some_and(|first| first.is(word));
    ["SET", "SAVEPOINT", "DECLARE"].into_iter().any(starts) || statement.iter().any(|token| token.is("SET_CONFIG"))
}

/// Whether the session is another after the statement, beyond the end of its transaction.
fn leaves_state(statement: &[Token<'_>], syntax: Syntax) -> bool {
    let is = |at: usize, word: &str| statement.get(at).is_some_and(|token| token.is(word));
    let temporary = |token: &Token<'_>| token.is("TEMP") || token.is("TEMPORARY");
    if is(0, "CREATE") && statement.iter().take(5).any(temporary) {
        return true;
    }
    match syntax {
        Syntax::Sqlite => is(0, "PRAGMA") || is(0, "ATTACH") || is(0, "DETACH"),
        Syntax::Postgres => {
            const STARTS: [&str; 8] = ["RESET", "DISCARD", "LISTEN", "UNLISTEN", "LOAD", "PREPARE", "DEALLOCATE", "DO"];
            let of_transaction = ["LOCAL", "TRANSACTION", "CONSTRAINTS"];
            (is(0, "SET") && !of_transaction.iter().any(|word| is(1, word)))
                || STARTS.iter().any(|word| is(0, word))
                || follows(statement, "INTO", temporary)
                || follows(statement, "WITH", |token| token.is("HOLD"))
                || statement.iter().any(|token| token.is("PG_TEMP"))
                || calls_for_session(statement)
        }
    }
}

/// Whether a token that fits follows the word somewhere.
fn follows(statement: &[Token<'_>], word: &str, fits: impl Fn(&Token<'_>) -> bool) -> bool {
    statement.windows(2).any(|pair| pair[0].is(word) && fits(&pair[1]))
}

/// Calls of functions whose effect outlives the transaction.
fn calls_for_session(statement: &[Token<'_>]) -> bool {
    const CALLS: [&str; 5] = [
        "PG_ADVISORY_LOCK",
        "PG_ADVISORY_LOCK_SHARED",
        "PG_TRY_ADVISORY_LOCK",
        "PG_TRY_ADVISORY_LOCK_SHARED",
        "SETSEED",
    ];
    statement.iter().enumerate().any(|(at, token)| {
        // `set_config(name, value, true)` ends with the transaction; anything else may not.
        let config = || token.is("SET_CONFIG") && !last_argument(&statement[at + 1..]).is_some_and(|it| it.is("TRUE"));
        CALLS.iter().any(|call| token.is(call)) || config()
    })
}

/// The token before the parenthesis that closes the first one.
fn last_argument<'t, 'a>(tokens: &'t [Token<'a>]) -> Option<&'t Token<'a>> {
    let mut depth = 0_usize;
    for (at, token) in tokens.iter().enumerate() {
        match token {
            Token::Mark('(') => depth += 1,
            Token::Mark(')') if depth <= 1 => return at.checked_sub(1).map(|before| &tokens[before]),
            Token::Mark(')') => depth -= 1,
            _ => {}
        }
    }
    None
}

/// Whether the scan is inside the body of a routine or trigger, whose statements are not ours:
/// `BEGIN ATOMIC … END` of PostgreSQL, `CREATE TRIGGER … BEGIN … END` of SQLite.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Body {
    None,
    /// Inside, with so many CASE open.
    Open(usize),
}

impl Body {
    fn after(self, before: &[Token<'_>], token: Token<'_>, syntax: Syntax) -> Self {
        match self {
            Self::None if opens_body(before, token, syntax) => Self::Open(0),
            Self::Open(cases) if token.is("CASE") => Self::Open(cases + 1),
            Self::Open(0) if token.is("END") => Self::None,
            Self::Open(cases) if token.is("END") => Self::Open(cases - 1),
            body => body,
        }
    }
}

fn opens_body(before: &[Token<'_>], token: Token<'_>, syntax: Syntax) -> bool {
    before.first().is_some_and(|first| first.is("CREATE"))
        && match syntax {
            Syntax::Postgres => token.is("ATOMIC") && before.last().is_some_and(|last| last.is("BEGIN")),
            Syntax::Sqlite => token.is("BEGIN") && before.iter().take(4).any(|word| word.is("TRIGGER")),
        }
}

/// Cuts SQL into tokens.
struct Scanner<'a> {
    rest: &'a str,
    syntax: Syntax,
}

impl<'a> Iterator for Scanner<'a> {
    type Item = Token<'a>;

    fn next(&mut self) -> Option<Token<'a>> {
        self.skip_blank();
        let first = self.rest.chars().next()?;
        let escapes = self.syntax == Syntax::Postgres && is_escape_string(self.rest);
        let token = match (first, self.syntax) {
            _ if escapes => self.escaped(),
            ('\'', _) => self.quoted(1, '\'', false),
            ('"', _) => self.quoted(1, '"', false),
            ('`', Syntax::Sqlite) => self.quoted(1, '`', false),
            ('[', Syntax::Sqlite) => self.until("]", 1),
            ('$', Syntax::Postgres) => match dollar_tag(self.rest) {
                Some(tag) => self.until(tag, tag.len()),
                None => self.mark(first),
            },
            _ if in_name(first) && !first.is_ascii_digit() => self.word(),
            _ => self.mark(first),
        };
        Some(token)
    }
}

impl<'a> Scanner<'a> {
    fn mark(&mut self, first: char) -> Token<'a> {
        self.rest = &self.rest[first.len_utf8()..];
        Token::Mark(first)
    }

    fn word(&mut self) -> Token<'a> {
        let end = self.rest.find(|c: char| !(in_name(c) || c == '$')).unwrap_or(self.rest.len());
        let (word, rest) = self.rest.split_at(end);
        self.rest = rest;
        Token::Word(word)
    }

    /// A literal with escapes. It goes on in another one on a later line, as the standard has it.
    fn escaped(&mut self) -> Token<'a> {
        let mut opening = 2;
        loop {
            self.quoted(opening, '\'', true);
            let behind = self.rest;
            self.skip_blank();
            let between = &behind[..behind.len() - self.rest.len()];
            if !(between.contains(['\n', '\r']) && self.rest.starts_with('\'')) {
                return Token::Quoted;
            }
            opening = 1;
        }
    }

    /// A literal that opens with `skip` bytes and ends at `quote`; doubled, the quote is part of it.
    fn quoted(&mut self, skip: usize, quote: char, escapes: bool) -> Token<'a> {
        let mut chars = self.rest[skip..].char_indices().peekable();
        let mut end = self.rest.len();
        while let Some((at, c)) = chars.next() {
            if escapes && c == '\\' {
                chars.next();
            } else if c == quote {
                if chars.peek().is_some_and(|(_, next)| *next == quote) {
                    chars.next();
                } else {
                    end = skip + at + quote.len_utf8();
                    break;
                }
            }
        }
        self.rest = &self.rest[end..];
        Token::Quoted
    }

    /// A literal that opens with `skip` bytes and ends behind `end`.
    fn until(&mut self, end: &str, skip: usize) -> Token<'a> {
        let stop = self.rest[skip..].find(end).map_or(self.rest.len(), |at| skip + at + end.len());
        self.rest = &self.rest[stop..];
        Token::Quoted
    }

    fn skip_blank(&mut self) {
        loop {
            let blank = |c: char| is_blank(c, self.syntax);
            let trimmed = self.rest.trim_start_matches(blank);
            self.rest = if trimmed.starts_with("--") {
                trimmed.find(['\n', '\r']).map_or("", |end| &trimmed[end..])
            } else if trimmed.starts_with("/*") {
                after_comment(trimmed, self.syntax == Syntax::Postgres)
            } else {
                trimmed
            };
            if self.rest.len() == trimmed.len() {
                return;
            }
        }
    }
}

/// Every character beyond ASCII may stand in a name, an emoji or a wide space too.
fn in_name(c: char) -> bool {
    c.is_ascii_alphanumeric() || c == '_' || !c.is_ascii()
}

/// SQLite takes a byte order mark for blank.
fn is_blank(c: char, syntax: Syntax) -> bool {
    matches!(c, ' ' | '\t' | '\n' | '\r' | '\x0b' | '\x0c') || (c == '\u{feff}' && syntax == Syntax::Sqlite)
}

fn is_escape_string(sql: &str) -> bool {
    matches!(sql.as_bytes(), [b'e' | b'E', b'\'', ..])
}

/// `$tag$` at the start, if it is one and not a parameter.
fn dollar_tag(sql: &str) -> Option<&str> {
    let end = sql[1..].find('$')? + 1;
    let tag = &sql[1..end];
    let legal = !tag.starts_with(|c: char| c.is_ascii_digit()) && tag.chars().all(in_name);
    legal.then(|| &sql[..=end])
}

/// What follows the comment at the start.
fn after_comment(sql: &str, nests: bool) -> &str {
    let mut depth = 0_usize;
    let mut at = 0;
    let bytes = sql.as_bytes();
    while at + 1 < bytes.len() {
        match &bytes[at..at + 2] {
            b"/*" if depth == 0 || nests => (depth, at) = (depth + 1, at + 2),
            b"*/" => {
                (depth, at) = (depth - 1, at + 2);
                if depth == 0 {
                    return &sql[at..];
                }
            }
            _ => at += 1,
        }
    }
    ""
}

#[cfg(test)]
mod tests {
    use super::Syntax::{Postgres, Sqlite};
    use super::*;

    fn refused(sql: &str) -> bool {
        let verdicts = [Postgres, Sqlite].map(|syntax| matches!(inspect(sql, syntax), Verdict::Refused(_)));
        assert_eq!(verdicts[0], verdicts[1], "both syntaxes agree on {sql}");
        verdicts[0]
    }

    #[test]
    fn statements_that_end_or_begin_a_transaction_are_refused() {
        for sql in [
            "BEGIN",
            "begin;",
            "  Commit",
            "COMMIT AND CHAIN",
            "COMMIT PREPARED 'x'",
            "END",
            "abort",
            "ROLLBACK",
            "rollback work",
            "ROLLBACK TRANSACTION",
            "ROLLBACK PREPARED 'x'",
            "ROLLBACK AND NO CHAIN",
            "START TRANSACTION READ ONLY",
            "PREPARE TRANSACTION 'x'",
            "BEGIN IMMEDIATE",
            "; ;COMMIT",
            "SELECT 1; COMMIT",
            "ROLLBACK; BEGIN",
            "/* hi */ COMMIT",
            "-- hi\nCOMMIT",
            "-- hi\rCOMMIT",
            "SELECT ';' ; COMMIT",
            "SELECT 'a''b'; COMMIT",
            "SELECT \"a;b\"; COMMIT",
            "SELECT '--'; COMMIT --",
            "SELECT CASE WHEN true THEN 1 END; END",
        ] {
            assert!(refused(sql), "{sql}");
        }
    }

    #[test]
    fn what_only_looks_like_it_is_not() {
        for sql in [
            "",
            ";",
            "--COMMIT",
            "/* COMMIT */",
            "SAVEPOINT a",
            "RELEASE SAVEPOINT a",
            "ROLLBACK TO a",
            "ROLLBACK TO SAVEPOINT a",
            "ROLLBACK WORK TO SAVEPOINT a",
            "ROLLBACK TRANSACTION TO SAVEPOINT a",
            "SELECT 'x; COMMIT'",
            "SELECT \"x; COMMIT\"",
            "INSERT INTO t (\"end\") VALUES ('COMMIT')",
            "SELECT CASE WHEN a THEN 1 END FROM t",
            "SELECT 1 AS commit",
            "COMMITTED",
            "UPDATE t SET a = 'it''s; ROLLBACK'",
            "SELECT 1 -- ; COMMIT",
            "SELECT 1 /* ; COMMIT */",
            "SELECT 'open; COMMIT",
            "/* open; COMMIT",
        ] {
            assert!(!refused(sql), "{sql}");
        }
    }

    #[test]
    fn each_database_has_quotes_of_its_own() {
        let is_refused = |sql, syntax| matches!(inspect(sql, syntax), Verdict::Refused(_));
        for sql in [
            r"SELECT E'\'; COMMIT'",
            r"SELECT e'a\\\'; COMMIT'",
            "SELECT $$; COMMIT; $$",
            "SELECT $a$; COMMIT; $$ $b$ ; COMMIT $a$",
            "/* /* */ ; COMMIT */",
            "SELECT $1; SELECT '$' ",
            "CREATE FUNCTION f() RETURNS int BEGIN ATOMIC SELECT CASE WHEN true THEN 1 END; END",
        ] {
            assert!(!is_refused(sql, Postgres), "{sql}");
        }
        for sql in [
            r"SELECT '\'; COMMIT",
            "SELECT $1; COMMIT; SELECT $1",
            "SELECT $a$x$a$; COMMIT",
            "SELECT a$b$; COMMIT; SELECT a$b$",
            "/* /* */ */ COMMIT",
            "SELECT a[1]; COMMIT; SELECT a[1]",
            "CREATE FUNCTION f() RETURNS int BEGIN ATOMIC SELECT 1; END; COMMIT",
            "SELECT datE'x'; COMMIT",
            "SELECT 1 AS \u{1f600}$a$; COMMIT; --$a$",
            "SELECT 1 AS \u{a0}$a$; COMMIT; --$a$",
            "SELECT E'a'\n'\\''; COMMIT; --'",
            "SELECT E'a' -- b\n '\\''; COMMIT; --'",
        ] {
            assert!(is_refused(sql, Postgres), "{sql}");
        }
        for sql in [
            "SELECT [; COMMIT]",
            "SELECT `; COMMIT`",
            "CREATE TRIGGER a AFTER INSERT ON b BEGIN UPDATE c SET d = CASE e WHEN 1 THEN 2 END; DELETE FROM f; END",
        ] {
            assert!(!is_refused(sql, Sqlite), "{sql}");
        }
        for sql in [
            "/* /* */ COMMIT",
            r"SELECT 'a\'; COMMIT",
            "\u{feff}COMMIT",
            "CREATE TRIGGER a AFTER INSERT ON b BEGIN DELETE FROM c; END; COMMIT",
            "CREATE TABLE a (b); COMMIT",
        ] {
            assert!(is_refused(sql, Sqlite), "{sql}");
        }
    }

    #[test]
    fn statements_that_outlive_their_transaction_taint_the_session() {
        for sql in [
            "SET search_path TO x",
            "set session statement_timeout = 1",
            "SET ROLE x",
            "RESET ALL",
            "DISCARD ALL",
            "LISTEN a",
            "LOAD 'x'",
            "PREPARE a AS SELECT 1",
            "DEALLOCATE ALL",
            "CREATE TEMP TABLE a (b int)",
            "CREATE LOCAL TEMPORARY TABLE a (b int)",
            "CREATE OR REPLACE TEMP VIEW a AS SELECT 1",
            "SELECT 1 INTO TEMP a",
            "CREATE TABLE pg_temp.a (b int)",
            "SELECT set_config('a.b', $1, false)",
            "SELECT pg_catalog.set_config('a.b', lower('x'), $1)",
            "SELECT pg_advisory_lock(1)",
            "SELECT 1; SELECT pg_try_advisory_lock(1, 2)",
            "DECLARE a CURSOR WITH HOLD FOR SELECT 1",
            "DO $$ BEGIN PERFORM 1; END $$",
        ] {
            assert_eq!(inspect(sql, Postgres), Verdict::Taints, "{sql}");
        }
        for sql in ["PRAGMA foreign_keys = off", "ATTACH 'a' AS b", "DETACH b", "CREATE TEMP TABLE a (b)"] {
            assert_eq!(inspect(sql, Sqlite), Verdict::Taints, "{sql}");
        }
    }

    #[test]
    fn statements_that_show_in_the_rest_of_their_transaction_end_with_it() {
        for sql in [
            "SET LOCAL search_path TO x",
            "set local statement_timeout = 1; SELECT 1",
            "SET TRANSACTION READ ONLY",
            "SET CONSTRAINTS ALL IMMEDIATE",
            "SELECT set_config('a.b', lower(coalesce($1, 'x')), true)",
            "DECLARE a CURSOR FOR SELECT 1",
            "SAVEPOINT a",
        ] {
            assert_eq!(inspect(sql, Postgres), Verdict::Lasts, "{sql}");
        }
        assert_eq!(inspect("SAVEPOINT a", Sqlite), Verdict::Lasts);
        for (sql, opens) in [("SAVEPOINT a", true), ("SELECT 1; savepoint a", true), ("SELECT 'SAVEPOINT a'", false)] {
            assert_eq!(opens_savepoint(sql, Postgres), opens, "{sql}");
        }
        assert_eq!(inspect("SET LOCAL a = 1; SET b = 1; SET LOCAL c = 1", Postgres), Verdict::Taints);
    }

    #[test]
    fn other_statements_leave_nothing_but_their_effects() {
        for sql in [
            "SELECT pg_advisory_xact_lock(1)",
            "LOCK TABLE a IN SHARE MODE",
            "ROLLBACK TO a",
            "RELEASE a",
            "NOTIFY a",
            "UPDATE a SET b = 1",
            "CREATE TABLE a (temperature int)",
            "WITH a AS (SELECT 1) SELECT * FROM a",
            "INSERT INTO temperatures VALUES (1)",
            "SELECT 'SET ROLE x'",
        ] {
            assert_eq!(inspect(sql, Postgres), Verdict::Clean, "{sql}");
        }
    }

    #[test]
    fn a_refusal_weighs_more_than_a_taint_and_names_the_words() {
        assert_eq!(inspect("SET ROLE x; commit", Postgres), Verdict::Refused("COMMIT".into()));
        assert!(refusal("COMMIT").contains("tx.begin()"));
    }

    proptest::proptest! {
        #[test]
        fn any_text_is_scanned_to_its_end(sql in ".{0,200}") {
            inspect(&sql, Postgres);
            inspect(&sql, Sqlite);
        }

        #[test]
        fn a_commit_is_seen_behind_any_whole_literal_and_never_inside_one(text in "[^'\\\\]{0,40}") {
            let behind = format!("SELECT '{text}'; COMMIT");
            let inside = format!("SELECT '{text}; COMMIT'");
            for syntax in [Postgres, Sqlite] {
                proptest::prop_assert_eq!(inspect(&behind, syntax), Verdict::Refused("COMMIT".into()));
                proptest::prop_assert_eq!(inspect(&inside, syntax), Verdict::Clean);
            }
        }

        #[test]
        fn quoting_soup_never_panics(parts in proptest::collection::vec("[eE]?['\"`]|\\$[a-z]?\\$?|--|/\\*|\\*/|\\[|\\]|;|\\\\|é|COMMIT|\n| ", 0..40)) {
            let sql = parts.concat();
            inspect(&sql, Postgres);
            inspect(&sql, Sqlite);
        }
    }
}
