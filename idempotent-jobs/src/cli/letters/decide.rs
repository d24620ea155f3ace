//! `redrive` and `skip`: what a person decides on.

use std::collections::HashMap;
use std::time::Duration;

use clap::Args;
use serde_json::{Value, json};

use super::super::text::parse_age;
use super::which::Which;
use super::{End, Out, Trouble, wait};
use crate::dead_letters::{Answer, DeadLetters, Foreseen, LetterState};
use crate::store::Access;

pub(super) const REDRIVE: &str = "\
A worker that runs the job takes a requested letter within a second or so, if one is running. Run again twice
it is a duplicate; one that fails again is open again, the same letter with its history. Redriving before the
cause is mended changes nothing in the database, but calls to the outside are made again; a letter of reason
killed_process kills its worker again, up to three times; and one of reason conflict finds the same conflict
again: skip it, unless the message that holds the key was skipped.

  idempotent-jobs dead-letters redrive --job charge --dry-run   what would become of each
  idempotent-jobs dead-letters redrive 17 --wait                one first, and how it ended
  idempotent-jobs dead-letters redrive --job charge             the others";

/// `redrive`
#[derive(Args)]
pub(in crate::cli) struct Redrive {
    #[command(flatten)]
    pub(super) asked: Asked,
    /// Waits until workers are done with them, at most so long; 5m when no time is given
    #[arg(long, value_name = "AGE", num_args = 0..=1, default_missing_value = "5m", value_parser = parse_age)]
    wait: Option<Duration>,
}

/// `skip`
#[derive(Args)]
pub(in crate::cli) struct Skip {
    #[command(flatten)]
    pub(super) asked: Asked,
}

/// What both are told.
#[derive(Args)]
pub(in crate::cli) struct Asked {
    #[command(flatten)]
    which: Which,
    /// All open ones: where nothing else says which are meant
    #[arg(long)]
    all: bool,
    /// Changes nothing, and says of each what would become of it
    #[arg(long)]
    dry_run: bool,
    /// Who asks, kept in the history [default: user@host]
    #[arg(long, value_name = "WHO")]
    by: Option<String>,
    /// One JSON object a line
    #[arg(long)]
    json: bool,
}

impl Asked {
    /// A command that changes much must not be one that was typed too early.
    pub(super) fn check(&self) -> Result<(), Trouble> {
        let wrong = if self.which.is_of_any_state() {
            "`--state all` means redriven ones too, which cannot be decided on: name a state, or numbers"
        } else if self.all && self.which.is_narrow() {
            "`--all` means all open ones, and the rest of what was given means fewer: leave one of the two out"
        } else if !self.all && !self.which.is_narrow() {
            "say which ones: numbers, a choice such as `--job charge`, or `--all` for all open ones"
        } else {
            return Ok(());
        };
        Err(Trouble::Asked(wrong.to_owned()))
    }

    pub(super) fn access(&self) -> Access {
        if self.dry_run { Access::Read } else { Access::Change }
    }

    fn by(&self) -> String {
        self.by.clone().unwrap_or_else(|| format!("{}@{}", user(), host()))
    }
}

fn user() -> String {
    ["USER", "LOGNAME", "USERNAME"].iter().find_map(|name| std::env::var(name).ok()).unwrap_or_else(unknown)
}

fn host() -> String {
    let kernel = || std::fs::read_to_string("/proc/sys/kernel/hostname").ok();
    let named = kernel().or_else(|| std::env::var("HOSTNAME").ok()).or_else(|| std::env::var("COMPUTERNAME").ok());
    named.map_or_else(unknown, |name| name.trim().to_owned())
}

fn unknown() -> String {
    "unknown".to_owned()
}

pub(super) async fn redrive(args: &Redrive, letters: &DeadLetters, out: Out<'_>) -> Result<End, Trouble> {
    let asked = &args.asked;
    let filter = asked.which.filter();
    let foreseen = letters.foresee(&filter).await?;
    if asked.dry_run {
        let all: Vec<_> = foreseen.into_iter().map(|(id, it)| (id, is_redriven(it), would(it))).collect();
        return foretell(asked, &all, out);
    }
    let answers = letters.redrive(&filter, &asked.by()).await?;
    // Of the others the answer says all.
    let told = |it: &Foreseen| !matches!(it, Foreseen::Stands(_) | Foreseen::Unknown);
    let would: HashMap<i64, Foreseen> = foreseen.into_iter().filter(|(_, it)| told(it)).collect();
    let end = tell(asked, &answers, "to be run again", out, |id| would.get(&id).copied())?;
    let Some(limit) = args.wait else { return Ok(end) };
    // Whoever asked first: what is waited for is how it ends.
    let is_waited_for = |answer: &Answer| matches!(answer, Answer::Done | Answer::Stands(LetterState::Requested));
    let requested: Vec<i64> = answers.iter().filter(|(_, it)| is_waited_for(it)).map(|(id, _)| *id).collect();
    let end = if answers.iter().all(|(_, it)| is_waited_for(it)) { End::Well } else { end };
    Ok(end.max(wait::wait(letters, requested, limit, asked.json, out).await?))
}

pub(super) async fn skip(args: &Skip, letters: &DeadLetters, out: Out<'_>) -> Result<End, Trouble> {
    let asked = &args.asked;
    let filter = asked.which.filter();
    if !asked.dry_run {
        let answers = letters.skip(&filter, &asked.by()).await?;
        return tell(asked, &answers, "skipped", out, |_| None);
    }
    let answers = letters.would_skip(&filter).await?;
    let would = |answer| match answer {
        Answer::Done => ("skip", "would be skipped".to_owned()),
        Answer::Stands(state) => would(Foreseen::Stands(state)),
        Answer::Unknown => would(Foreseen::Unknown),
    };
    let all: Vec<_> = answers.into_iter().map(|(id, answer)| (id, answer == Answer::Done, would(answer))).collect();
    foretell(asked, &all, out)
}

/// What a redrive would come to, as a word for scripts and in words for people.
fn would(foreseen: Foreseen) -> (&'static str, String) {
    let (word, words) = match foreseen {
        Foreseen::Runs => ("run", "its handler would be entered"),
        Foreseen::Unkeyed => ("unread", "a worker reads it anew: what it finds is not known before"),
        Foreseen::Duplicate => ("duplicate", "its key was done meanwhile: it would not be run"),
        Foreseen::Conflict => ("conflict", "its key belongs to another message: it would be open again"),
        Foreseen::Waits { behind } => return ("wait", format!("it waits behind {behind}: decide on that one")),
        Foreseen::Stands(state) => return ("stand", format!("would be left as it is: it is {state}")),
        Foreseen::Unknown => ("unknown", "there is no such dead letter"),
    };
    (word, words.to_owned())
}

/// Whether the command would do it: then the exit code is that of the command.
fn is_redriven(foreseen: Foreseen) -> bool {
    !matches!(foreseen, Foreseen::Waits { .. } | Foreseen::Stands(_) | Foreseen::Unknown)
}

/// Numbers, whether the command would be done with each, and what would become of it.
fn foretell(asked: &Asked, all: &[(i64, bool, (&'static str, String))], out: Out<'_>) -> Result<End, Trouble> {
    for (id, _, (word, words)) in all {
        match asked.json {
            true => writeln!(out, "{}", json!({ "id": id, "would": word }))?,
            false => writeln!(out, "{id}  {words}")?,
        }
    }
    summary(asked, &format!("{} looked at; nothing was changed", all.len()), out)?;
    Ok(if all.iter().all(|(_, done, _)| *done) { End::Well } else { End::Partly })
}

fn tell(
    asked: &Asked,
    answers: &[(i64, Answer)],
    done: &str,
    out: Out<'_>,
    foreseen: impl Fn(i64) -> Option<Foreseen>,
) -> Result<End, Trouble> {
    let mut left = 0;
    for (id, answer) in answers {
        left += usize::from(*answer != Answer::Done);
        let foreseen = foreseen(*id).map(would);
        if asked.json {
            writeln!(out, "{}", object(*id, *answer, foreseen.map(|(word, _)| word)))?;
            continue;
        }
        let words = match answer {
            Answer::Done => format!("{done}{}", foreseen.map(|(_, words)| format!("; {words}")).unwrap_or_default()),
            Answer::Stands(LetterState::Parked) => {
                "left as it is: it is parked, and follows the one it waits behind: `dead-letters parked`".to_owned()
            }
            Answer::Stands(LetterState::Requested) => "left as it is: it is to be run again already".to_owned(),
            Answer::Stands(state) => format!("left as it is: it is {state}"),
            Answer::Unknown => "there is no such dead letter".to_owned(),
        };
        writeln!(out, "{id}  {words}")?;
    }
    let count = answers.len() - left;
    let rest = if left > 0 { format!(", {left} not") } else { String::new() };
    let summed = if answers.is_empty() { "no dead letter fits".to_owned() } else { format!("{count} {done}{rest}") };
    summary(asked, &summed, out)?;
    Ok(if left > 0 { End::Partly } else { End::Well })
}

fn object(id: i64, answer: Answer, would: Option<&str>) -> Value {
    let mut object = match answer {
        Answer::Done => json!({ "id": id, "answer": "done" }),
        Answer::Stands(state) => json!({ "id": id, "answer": "stands", "state": state.as_str() }),
        Answer::Unknown => json!({ "id": id, "answer": "unknown" }),
    };
    if let Some(would) = would {
        object["would"] = json!(would);
    }
    object
}

fn summary(asked: &Asked, words: &str, out: Out<'_>) -> Result<(), Trouble> {
    if !asked.json {
        writeln!(out, "{words}")?;
    }
    Ok(())
}
