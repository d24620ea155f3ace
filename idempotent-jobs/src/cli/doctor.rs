//! `doctor`: what is wrong.

use clap::Args;
use serde_json::json;

use super::text::{clean, lines, patiently};
use super::{End, Out, Trouble};
use crate::doctor::{Doctor, Finding, Severity};

/// `doctor`
#[derive(Args)]
pub(super) struct Examine {
    /// Only what is wrong
    #[arg(long, short)]
    quiet: bool,
    /// One JSON object a line
    #[arg(long)]
    json: bool,
}

pub(super) const CODES: &str = "\
It only looks: nothing is written, no table is made or changed, no group is joined. Which groups and topics it
looks at follows from the jobs that ran on the database; KAFKA_GROUP_ID narrows it to one group.

Exit codes:
  0  all is well
  1  there is a warning: it works, and may not for long, or waits for somebody
  2  there is an error: something does not work, or loses messages";

pub(super) async fn run(args: &Examine, out: Out<'_>) -> Result<End, Trouble> {
    let mut findings = patiently(Doctor::from_env().examine()).await;
    // What is worst is read last, next to the prompt.
    findings.sort_by_key(|finding| finding.severity);
    let worst = findings.last().map_or(Severity::Ok, |finding| finding.severity);
    for finding in findings.iter().filter(|finding| !args.quiet || finding.severity > Severity::Ok) {
        if args.json { writeln!(out, "{}", object(finding))? } else { tell(finding, out)? }
    }
    Ok(match worst {
        Severity::Ok => End::Well,
        Severity::Warning => End::Partly,
        Severity::Error => End::Wrong,
    })
}

fn tell(finding: &Finding, out: Out<'_>) -> Result<(), Trouble> {
    let Finding { severity, check, place, what, advice } = finding;
    writeln!(out, "{severity:<8} {check}: {}: {}", clean(place), lines(what).replace('\n', "\n         "))?;
    if !advice.is_empty() {
        writeln!(out, "         -> {}", clean(advice))?;
    }
    Ok(())
}

pub(super) fn object(finding: &Finding) -> serde_json::Value {
    let Finding { severity, check, place, what, advice } = finding;
    json!({ "severity": severity.as_str(), "check": check, "place": place, "what": what, "advice": advice })
}
