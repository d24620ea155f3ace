//! What is sent, in order: every message, and a third of them again as a producer would that
//! crashed before it saw the answers, and begins where it was last sure.

/// Sure of so many at a time.
const BATCH: usize = 300;

/// The indices of the messages in the order they are sent.
pub fn plan(messages: usize) -> Vec<usize> {
    let batches = (0..messages).step_by(BATCH).map(|first| first..messages.min(first + BATCH));
    batches.flat_map(|batch| batch.clone().chain(batch.end - batch.len().div_ceil(3)..batch.end)).collect()
}

#[cfg(test)]
mod tests {
    use super::plan;

    #[test]
    fn a_third_is_sent_again() {
        assert_eq!(plan(1), [0, 0]);
        assert_eq!(plan(3), [0, 1, 2, 2]);
        for messages in [1, 3, 10, 300, 301, 6919, 69_190] {
            let plan = plan(messages);
            assert_eq!(plan.len(), messages + messages.div_ceil(3), "{messages}");
            assert!((0..messages).all(|message| plan.contains(&message)) || messages > 1000);
        }
    }
}
