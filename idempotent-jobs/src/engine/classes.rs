//! Which jobs a message is for, and in which lane it waits. Pure.

use std::collections::HashMap;
use std::hash::{BuildHasher, RandomState};

use super::lanes::Place;
use crate::job::{Ordering, Spec};
use crate::message::{EVENT_HEADER, Message};

/// Messages that are for the same jobs.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) struct Class {
    /// Their places in the engine's list, in its order. None takes an unknown event.
    pub jobs: Vec<usize>,
}

/// The classes of all topics.
#[derive(Debug)]
pub(super) struct Classes {
    all: Vec<Class>,
    topics: HashMap<&'static str, Topic>,
    hasher: RandomState,
}

#[derive(Debug)]
struct Topic {
    /// The class of each event that a job names.
    events: Vec<(&'static str, usize)>,
    /// The class of every other message.
    other: usize,
    /// The strictest of its jobs'.
    ordering: Ordering,
}

impl Classes {
    pub fn new(specs: &[&Spec]) -> Self {
        let mut classes = Self { all: Vec::new(), topics: HashMap::new(), hasher: RandomState::new() };
        for spec in specs {
            if !classes.topics.contains_key(spec.topic) {
                let topic = classes.topic(specs, spec.topic);
                classes.topics.insert(spec.topic, topic);
            }
        }
        classes
    }

    fn topic(&mut self, specs: &[&Spec], name: &str) -> Topic {
        let jobs = || specs.iter().enumerate().filter(|(_, spec)| spec.topic == name);
        let mut class = |event: Option<&str>| {
            let takes = |spec: &Spec| spec.event.is_none() || spec.event == event;
            let jobs: Vec<usize> = jobs().filter(|(_, spec)| takes(spec)).map(|(index, _)| index).collect();
            self.all.push(Class { jobs });
            self.all.len() - 1
        };
        let mut events: Vec<&'static str> = jobs().filter_map(|(_, spec)| spec.event).collect();
        events.sort_unstable();
        events.dedup();
        Topic {
            other: class(None),
            events: events.into_iter().map(|event| (event, class(Some(event)))).collect(),
            ordering: jobs().map(|(_, spec)| spec.ordering).max().unwrap_or_default(),
        }
    }

    pub fn class(&self, class: usize) -> &Class {
        &self.all[class]
    }

    /// Where a message waits. `None`: no job reads its topic.
    pub fn place(&self, message: &Message) -> Option<Place> {
        let topic = self.topics.get(&*message.coordinates.topic)?;
        let event = if topic.events.is_empty() { None } else { message.headers.get(EVENT_HEADER) };
        let named = event.and_then(|event| topic.events.iter().find(|(name, _)| name.as_bytes() == event));
        let class = named.map_or(topic.other, |(_, class)| *class);
        Some(Place { lane: self.lane(topic.ordering, message), class })
    }

    /// Two keys of one hash share a lane, which costs them some waiting and nothing else.
    fn lane(&self, ordering: Ordering, message: &Message) -> u64 {
        match (ordering, &message.key) {
            (Ordering::Partition, _) => 0,
            (Ordering::Key, Some(key)) => self.hasher.hash_one(key),
            (Ordering::Key, None) | (Ordering::None, _) => self.hasher.hash_one(message.coordinates.offset),
        }
    }
}

#[cfg(test)]
mod tests;
