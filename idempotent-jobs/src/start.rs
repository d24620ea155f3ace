//! What must hold before the first message is read. Every check gives a sentence for each
//! problem, and all of them are shown together.

use std::collections::{BTreeSet, HashMap};
use std::sync::Arc;

use crate::context::{Handle, States};
use crate::job::Job;
use crate::registry::Registered;

/// Which of the linked jobs a worker runs.
pub(crate) struct Selection<'a> {
    pub only: Option<&'a [String]>,
    pub expected: &'a [String],
    pub shared: &'a [String],
}

/// What is wrong with the linked jobs, whatever their database.
pub(crate) fn names(linked: &[Registered], selection: &Selection<'_>) -> Vec<String> {
    if linked.is_empty() {
        let expected = selection.expected.iter().map(|name| format!("the expected job `{name}` is not linked"));
        return std::iter::once(NO_JOB.to_owned()).chain(expected).collect();
    }
    same_names(linked).into_iter().chain(missing(linked, selection)).collect()
}

/// The jobs to run on a database with handles of type `H`, and what is wrong with them.
pub(crate) fn select<H: Handle>(
    linked: &[Registered],
    selection: &Selection<'_>,
    states: &States,
) -> (Vec<Arc<dyn Job<H>>>, Vec<String>) {
    let (mut jobs, mut problems) = (Vec::new(), Vec::new());
    for registered in linked.iter().filter(|job| wanted(job, selection)) {
        match registered.job::<H>() {
            Some(job) => {
                let needs = job.check(states);
                problems.extend(needs.into_iter().map(|need| format!("job `{}`: {need}", registered.name)));
                jobs.push(job);
            }
            None => problems.push(wrong_handle::<H>(registered)),
        }
    }
    (jobs, problems)
}

fn wrong_handle<H: Handle>(job: &Registered) -> String {
    format!(
        "job `{}` takes `&mut {}`, but the worker's database is {} (`&mut {}`): give it a worker of its own, and choose \
         the jobs of each with `Worker::builder().jobs([…])`",
        job.name,
        job.handle,
        H::DATABASE,
        H::NAME,
    )
}

const NO_JOB: &str = "no job is linked into this program: declare one with `#[idempotent_job]`; if the jobs live in another \
     crate, name it once, `use my_jobs as _;`, or the linker drops it; `Worker::builder().expect_jobs([…])` turns a job \
     that went missing into a start-up error";

fn wanted(job: &Registered, selection: &Selection<'_>) -> bool {
    selection.only.is_none_or(|only| only.iter().any(|name| name == job.name))
}

fn same_names(linked: &[Registered]) -> Vec<String> {
    let twice: BTreeSet<&str> =
        linked.windows(2).filter(|pair| pair[0].name == pair[1].name).map(|pair| pair[0].name).collect();
    let sentence = |name| {
        format!(
            "two jobs are called `{name}`: the name is part of every dedup key, so each needs its own; \
             write `name = \"…\"` in one of them"
        )
    };
    twice.into_iter().map(sentence).collect()
}

fn missing(linked: &[Registered], selection: &Selection<'_>) -> Vec<String> {
    let known = linked.iter().map(|job| job.name).collect::<Vec<_>>().join("`, `");
    let absent = |name: &&String| !linked.iter().any(|job| job.name == name.as_str());
    let expected = selection.expected.iter().filter(absent).map(|name| {
        format!(
            "the expected job `{name}` is not linked into this program (linked are `{known}`): name its crate once, \
             `use my_jobs as _;`"
        )
    });
    let chosen = selection.only.unwrap_or_default().iter().chain(selection.shared).filter(absent);
    let chosen = chosen.map(|name| format!("no job is called `{name}`; linked are `{known}`"));
    let none = selection.only.is_some_and(<[String]>::is_empty);
    let none = none.then(|| "the list of jobs to run is empty: leave `.jobs([…])` out to run all".to_owned());
    expected.chain(chosen).chain(none).collect()
}

/// Where copies of dead letters of each topic go.
pub(crate) fn dead_letter_topics(pattern: Option<&str>, topics: &[String]) -> Result<HashMap<String, String>, String> {
    let Some(pattern) = pattern else { return Ok(HashMap::new()) };
    let of = |topic: &String| (topic.clone(), pattern.replace("{topic}", topic));
    let copies: HashMap<String, String> = topics.iter().map(of).collect();
    for copy in copies.values() {
        if let Some(problem) = illegal_topic(copy) {
            return Err(format!("`dead_letter_topic`: `{copy}` is no name of a topic: {problem}"));
        }
        if topics.contains(copy) {
            return Err(format!(
                "`dead_letter_topic`: `{copy}` is read by this worker, and what dies there would be sent there again: \
                 name another topic"
            ));
        }
    }
    Ok(copies)
}

/// Why Kafka refuses a topic of this name.
fn illegal_topic(name: &str) -> Option<&'static str> {
    let legal = |c: char| c.is_ascii_alphanumeric() || ['.', '_', '-'].contains(&c);
    if name.is_empty() || name == "." || name == ".." {
        return Some("it is empty or `.` or `..`");
    }
    if name.len() > 249 {
        return Some("it is longer than 249 characters");
    }
    (!name.chars().all(legal)).then_some("it takes letters, digits, `.`, `_` and `-`")
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn copies_of_dead_letters_go_to_a_legal_topic_that_is_not_read() {
        let topics = ["orders".to_owned(), "refunds".to_owned()];
        let copies = dead_letter_topics(Some("{topic}.dead"), &topics).expect("legal");
        assert_eq!(copies["refunds"], "refunds.dead");
        assert!(dead_letter_topics(None, &topics).expect("nothing to refuse").is_empty());
        for (pattern, complaint) in [("", "empty"), ("a b", "letters"), ("orders", "is read"), ("{topic}", "is read")] {
            let problem = dead_letter_topics(Some(pattern), &topics).expect_err(pattern);
            assert!(problem.contains(complaint), "{problem}");
        }
        assert!(dead_letter_topics(Some(&"x".repeat(250)), &topics).is_err());
    }
}
