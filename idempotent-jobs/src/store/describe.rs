//! What is told of an error: its words, without the values that a database quotes in them.

use std::error::Error as StdError;
use std::iter;

use sqlx::Error;
use sqlx::error::DatabaseError;

/// An error and what lies below it.
pub(super) fn chain<'e>(error: &'e (dyn StdError + 'static)) -> impl Iterator<Item = &'e (dyn StdError + 'static)> {
    iter::successors(Some(error), |&error| error.source())
}

/// The chain on one line, `a: b: c`. What an error says of its source in its own words, as
/// sqlx's do, is not said twice.
pub(super) fn describe(error: &(dyn StdError + 'static)) -> String {
    let quoting: Vec<_> = chain(error).filter_map(database).filter(|error| quotes(code(*error).as_ref())).collect();
    let mut line = String::new();
    for text in chain(error).map(ToString::to_string) {
        let text = quoting.iter().fold(text, |text, error| match error.message() {
            "" => text,
            message => text.replace(message, &hidden(&code(*error))),
        });
        if !line.ends_with(&text) {
            line += if line.is_empty() { "" } else { ": " };
            line += &text;
        }
    }
    line
}

/// Code and message of one error of a database.
pub(super) fn brief(error: &dyn DatabaseError) -> String {
    let code = code(error);
    if quotes(&code) { hidden(&code) } else { format!("{code}: {}", error.message()) }
}

/// Data exceptions (class 22) quote the value.
fn quotes(code: &str) -> bool {
    code.len() == 5 && code.starts_with("22")
}

fn hidden(code: &str) -> String {
    format!("{code} (its text is left out, since it quotes values)")
}

fn code(error: &dyn DatabaseError) -> String {
    error.code().map_or_else(|| "?".to_owned(), |code| code.into_owned())
}

/// The error as a database's. Whoever hides the driver's own error, as `anyhow` does at the
/// top, shows what is in it.
pub(super) fn database<'e>(error: &'e (dyn StdError + 'static)) -> Option<&'e (dyn DatabaseError + 'static)> {
    let inner = error.downcast_ref::<Box<dyn DatabaseError>>().map(|error| &**error);
    #[cfg(feature = "postgres")]
    let inner = inner.or_else(|| Some(error.downcast_ref::<sqlx::postgres::PgDatabaseError>()? as _));
    #[cfg(feature = "sqlite")]
    let inner = inner.or_else(|| Some(error.downcast_ref::<sqlx::sqlite::SqliteError>()? as _));
    inner.or_else(|| error.downcast_ref::<Error>()?.as_database_error())
}
