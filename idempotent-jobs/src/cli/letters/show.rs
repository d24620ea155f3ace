//! `show`: everything of one.

use clap::Args;
use serde_json::json;

use super::super::text::{bytes, clean, lines, millis, note, utc};
use super::{End, Out, Trouble, object};
use crate::dead_letters::{Change, DeadLetter, DeadLetters, Filter, Foreseen, LetterState, Shown};
use crate::key::hex;

/// `show`
#[derive(Args)]
pub(in crate::cli) struct Show {
    /// Its number, as `list` shows it
    #[arg(value_name = "NUMBER")]
    id: i64,
    /// With its payload and the values of its headers: text where it is text, else in hex
    #[arg(long)]
    payload: bool,
    /// As a JSON object; payload and header values, if asked for, in hex
    #[arg(long)]
    json: bool,
}

pub(super) async fn show(args: &Show, letters: &DeadLetters, out: Out<'_>) -> Result<End, Trouble> {
    let Some(shown) = letters.show(args.id).await? else {
        note(&format!("there is no dead letter {}: `dead-letters list --state all` shows them", args.id));
        return Ok(End::Partly);
    };
    let behind = match shown.letter.state {
        LetterState::Parked => letters.foresee(&Filter::default().ids([args.id])).await?.pop(),
        _ => None,
    };
    let behind = behind.and_then(|(_, it)| if let Foreseen::Waits { behind } = it { Some(behind) } else { None });
    if args.json {
        writeln!(out, "{}", as_json(&shown, behind, args.payload))?
    } else {
        as_text(&shown, behind, args.payload, out)?
    }
    Ok(End::Well)
}

fn as_json(shown: &Shown, behind: Option<i64>, payload: bool) -> serde_json::Value {
    let message = &shown.letter.message;
    let mut object = object(&shown.letter);
    object["behind"] = json!(behind);
    object["message_key_hex"] = json!(message.key.as_deref().map(hex));
    let change = |change: &Change| json!({ "state": change.state.as_str(), "at_ms": millis(change.at), "by": change.by, "detail": change.detail });
    object["history"] = shown.history.iter().map(change).collect();
    object["header_names"] = message.headers.iter().map(|(name, _)| name).collect();
    if payload {
        object["payload_hex"] = json!(message.payload.as_deref().map(hex));
        let pairs: Vec<_> = message.headers.iter().map(|(name, value)| (name, value.map(hex))).collect();
        object["headers_hex"] = json!(pairs);
    }
    object
}

fn as_text(shown: &Shown, behind: Option<i64>, payload: bool, out: Out<'_>) -> Result<(), Trouble> {
    let letter = &shown.letter;
    for (name, value) in fields(letter) {
        writeln!(out, "{name:<9} {value}")?;
    }
    if let Some(behind) = behind {
        writeln!(out, "behind    dead letter {behind}: decide on that one, and it is run in its turn")?;
    }
    writeln!(out, "error     {}", lines(&letter.error).replace('\n', "\n          "))?;
    for change in &shown.history {
        let by = change.by.as_deref().unwrap_or("a worker");
        let detail = change.detail.as_deref().map(|detail| format!(": {}", clean(detail))).unwrap_or_default();
        writeln!(out, "history   {} {} by {}{detail}", utc(change.at), change.state, clean(by))?;
    }
    let headers: Vec<String> = letter.message.headers.iter().map(|(name, _)| clean(name)).collect();
    if !payload {
        let headers = if headers.is_empty() { "none".to_owned() } else { headers.join(", ") };
        writeln!(out, "headers   {headers}")?;
        writeln!(
            out,
            "payload   {} (--payload shows it, and the values of headers)",
            size(letter.message.payload.as_deref())
        )?;
        return Ok(());
    }
    for (name, header) in letter.message.headers.iter() {
        writeln!(out, "header    {}: {}", clean(name), value(header))?;
    }
    writeln!(out, "payload   {}", size(letter.message.payload.as_deref()))?;
    if let Some(payload) = &letter.message.payload {
        writeln!(out, "{}", bytes(payload))?;
    }
    Ok(())
}

fn fields(letter: &DeadLetter) -> [(&'static str, String); 10] {
    let at = &letter.message.coordinates;
    let by = letter.changed_by.as_deref().map(|by| format!(" by {}", clean(by))).unwrap_or_default();
    [
        ("number", letter.id.to_string()),
        ("state", format!("{}, since {}{by}", letter.state, utc(letter.changed_at))),
        ("job", clean(letter.job.as_deref().unwrap_or("none takes its event"))),
        ("group", clean(&letter.group)),
        ("message", clean(&at.to_string())),
        ("kafka key", value(letter.message.key.as_deref())),
        ("key", clean(letter.key.as_deref().unwrap_or("none could be computed"))),
        ("died", utc(letter.died_at)),
        ("reason", clean(&letter.reason)),
        ("tries", letter.attempts.to_string()),
    ]
}

fn size(payload: Option<&[u8]>) -> String {
    payload.map_or_else(|| "null (a tombstone)".to_owned(), |payload| format!("{} bytes", payload.len()))
}

fn value(value: Option<&[u8]>) -> String {
    value.map_or_else(|| "null".to_owned(), bytes)
}
