use proptest::prelude::*;

use super::*;

const BOUNDS: Bounds = Bounds { rows: 64, bytes: 6_400 };
const AT: Duration = Duration::from_secs(1);

fn entry(id: i64, topic: u8, lane: Option<u8>, size: usize) -> Entry<()> {
    let lane = lane.map(|lane| Arc::from(lane.to_string()));
    Entry { shard: i16::from(topic % 2), id, topic: Arc::from(format!("t{topic}")), lane, size, record: () }
}

fn all(_: i16) -> bool {
    true
}

#[derive(Debug, Clone)]
enum Step {
    /// A read begins, of the next rows that the database would give; the last one comes in before.
    Read(usize),
    /// Time goes by.
    Wait(u64),
    Launch(usize),
    /// The report of one of those in flight, chosen by number.
    Confirm(usize),
    Fail(usize),
    Refuse(usize),
    /// The database answers about all it was told.
    Answer,
    Lose(i16),
}

fn steps() -> impl Strategy<Value = Vec<Step>> {
    let step = prop_oneof![
        6 => (1..40usize).prop_map(Step::Read),
        2 => (1..1_500u64).prop_map(Step::Wait),
        4 => (1..20usize).prop_map(Step::Launch),
        6 => (0..64usize).prop_map(Step::Confirm),
        2 => (0..64usize).prop_map(Step::Fail),
        1 => (0..64usize).prop_map(Step::Refuse),
        2 => Just(Step::Answer),
        1 => (0..2i16).prop_map(Step::Lose),
    ];
    proptest::collection::vec(step, 1..200)
}

/// An outbox of so many rows, and a relay on it. What it checks on the way is the window's promise.
struct Model {
    window: Window<()>,
    now: Duration,
    /// What a read will bring that was begun.
    reading: Vec<Entry<()>>,
    /// Rows as the database has them: topic, lane, whether it is held back by a refusal.
    rows: Vec<(i64, u8, Option<u8>)>,
    refused: HashSet<i64>,
    flying: Vec<Slot>,
    marking: Vec<Slot>,
    recording: Vec<Slot>,
    /// Ids in the order in which they were first confirmed.
    delivered: Vec<i64>,
}

impl Model {
    fn new(rows: Vec<(u8, Option<u8>)>) -> Self {
        let rows = (1..).zip(rows).map(|(id, (topic, lane))| (id, topic, lane)).collect();
        Self {
            window: Window::new(BOUNDS),
            now: AT,
            reading: Vec::new(),
            rows,
            refused: HashSet::new(),
            flying: Vec::new(),
            marking: Vec::new(),
            recording: Vec::new(),
            delivered: Vec::new(),
        }
    }

    /// What was read comes in, and another read begins, as `due` does it.
    fn read(&mut self, most: usize) {
        let came = std::mem::take(&mut self.reading);
        self.window.admit(came, self.now);
        self.window.prune(self.now);
        let Some(except) = self.window.crowded(self.now) else { return };
        let held: HashSet<i64> = self.window.ids().into_iter().collect();
        let room = self.window.room();
        let troubled: Vec<(u8, Option<u8>)> = self
            .rows
            .iter()
            .filter(|(id, ..)| self.refused.contains(id))
            .map(|(_, topic, lane)| (*topic, *lane))
            .collect();
        let due = self.rows.iter().filter(|(id, topic, lane)| {
            let waits = lane.is_some() && troubled.contains(&(*topic, *lane));
            let crowded = except.contains(&format!("t{topic}"));
            !(waits || crowded || held.contains(id) || self.refused.contains(id))
        });
        self.reading = due.take(most.min(room.rows)).map(|(id, topic, lane)| entry(*id, *topic, *lane, 100)).collect();
    }

    fn step(&mut self, step: &Step) {
        match step {
            Step::Read(rows) => self.read(*rows),
            Step::Wait(millis) => self.now += Duration::from_millis(*millis),
            Step::Launch(most) => self.flying.extend(self.window.launch(self.now, *most, all)),
            Step::Confirm(nth) => {
                if let Some(slot) = self.land(*nth) {
                    self.delivered.push(self.window.get(slot).id);
                    self.window.confirmed(slot, self.now);
                    self.marking.push(slot);
                }
            }
            Step::Fail(nth) => {
                if let Some(slot) = self.land(*nth) {
                    self.window.troubled(slot, true);
                }
            }
            Step::Refuse(nth) => {
                if let Some(slot) = self.land(*nth) {
                    assert!(self.window.refused(slot, self.now, true));
                    self.recording.push(slot);
                }
            }
            Step::Answer => self.answer(),
            Step::Lose(shard) => {
                self.window.lose(&[*shard]);
                self.reading.retain(|entry| entry.shard != *shard);
            }
        }
    }

    fn answer(&mut self) {
        for slot in std::mem::take(&mut self.marking) {
            let id = self.window.get(slot).id;
            self.rows.retain(|row| row.0 != id);
            self.window.marked(&[slot]);
        }
        // Failures are not recorded while something is being read.
        let recorded = if self.reading.is_empty() { std::mem::take(&mut self.recording) } else { Vec::new() };
        for slot in recorded {
            self.refused.insert(self.window.get(slot).id);
            self.window.recorded(slot);
        }
    }

    fn land(&mut self, nth: usize) -> Option<Slot> {
        let at = nth.checked_rem(self.flying.len())?;
        Some(self.flying.swap_remove(at))
    }

    fn check(&self) {
        let mut lanes = HashSet::new();
        for slot in &self.flying {
            let entry = self.window.get(*slot);
            if let Some(lane) = lane(entry) {
                assert!(lanes.insert(lane), "two of one lane are on their way");
            }
        }
        assert_eq!(self.window.flying(), self.flying.len());
        assert!(self.window.room().rows + self.window.ids.len() == BOUNDS.rows, "more is held than may be");
        assert!(self.window.ids().len() <= 2 * BOUNDS.rows, "more is known than may be");
        let mut held: Vec<_> = self.window.slots.iter().flatten().collect();
        held.sort_by_key(|held| held.entry.id);
        for (topic, of_topic) in &self.window.topics {
            let rows = held.iter().filter(|held| held.entry.topic == *topic).count();
            let flying = held.iter().filter(|held| held.entry.topic == *topic && held.state == State::Flying).count();
            assert_eq!((of_topic.held.rows, of_topic.flying.rows), (rows, flying));
        }
    }

    /// Everything that can leave does.
    fn finish(&mut self) {
        self.refused.clear();
        for _ in 0..10_000 {
            self.now += Duration::from_millis(300);
            self.answer();
            self.refused.clear();
            self.read(1_000);
            self.step(&Step::Launch(1_000));
            while !self.flying.is_empty() {
                self.step(&Step::Confirm(0));
            }
            self.answer();
            self.check();
            if self.rows.is_empty() {
                return;
            }
        }
        panic!("{} rows never leave", self.rows.len());
    }
}

proptest! {
    #[test]
    fn out_07_of_a_lane_one_is_on_its_way_and_all_leave_in_order(
        rows in proptest::collection::vec((0..3u8, proptest::option::weighted(0.8, 0..4u8)), 1..120),
        steps in steps(),
    ) {
        let mut model = Model::new(rows.clone());
        for step in &steps {
            model.step(step);
            model.check();
        }
        model.finish();
        let mut last: HashMap<(u8, u8), i64> = HashMap::new();
        let mut seen = HashSet::new();
        for id in model.delivered.iter().filter(|id| seen.insert(**id)) {
            let (topic, lane) = rows[usize::try_from(*id).unwrap() - 1];
            let Some(lane) = lane else { continue };
            let before = last.insert((topic, lane), *id);
            prop_assert!(before.is_none_or(|before| before < *id), "{id} of lane {lane} left after {before:?}");
        }
        prop_assert_eq!(seen.len(), rows.len());
    }
}

#[test]
fn records_without_a_lane_wait_for_nobody() {
    let mut window = Window::new(BOUNDS);
    window.admit((0..5).map(|id| entry(id, 0, None, 1)), AT);
    assert_eq!(window.launch(AT, 10, all).len(), 5);
}

#[test]
fn out_05_a_topic_that_does_not_move_leaves_room_for_others() {
    let mut window = Window::new(BOUNDS);
    let mut ids = 0..;
    let mut fill = |window: &mut Window<()>, topic: u8| {
        let rows = (0..BOUNDS.rows).map(|_| entry(ids.next().unwrap(), topic, None, 1)).collect::<Vec<_>>();
        window.admit(rows, AT)
    };
    assert_eq!((fill(&mut window, 0), fill(&mut window, 1), fill(&mut window, 2)), (32, 16, 8));
    assert_eq!(window.crowded(AT), None, "they have only begun");
    assert_eq!(window.crowded(AT * 2).map(|topics| topics.len()), Some(3));
    // The third one moves, and may have all that is left.
    let slots = window.launch(AT, usize::MAX, all);
    let moving: Vec<_> = slots.into_iter().filter(|slot| &*window.get(*slot).topic == "t2").collect();
    moving.iter().for_each(|slot| window.confirmed(*slot, AT * 2));
    window.marked(&moving);
    let mut crowded = window.crowded(AT * 2).unwrap();
    crowded.sort();
    assert_eq!(crowded, ["t0", "t1"]);
    assert_eq!(window.room().rows, 16);
    assert_eq!(fill(&mut window, 2), 64, "who reads asks for no more than there is room");
}

/// As a relay does it: rows of the database's first `most`, in the order of ids, without those it
/// has and without crowded topics. Whether it came to a read.
fn read(window: &mut Window<()>, outbox: &[Entry<()>], most: usize, now: Duration) -> bool {
    window.prune(now);
    let Some(except) = window.crowded(now) else { return false };
    if !window.is_roomy(now) {
        return false;
    }
    let known: HashSet<i64> = window.ids().into_iter().collect();
    let due = outbox.iter().filter(|row| !known.contains(&row.id) && !except.contains(&row.topic.to_string()));
    let rows: Vec<_> = due.take(most.min(window.room().rows)).map(copy).collect();
    window.admit(rows, now);
    true
}

fn copy(entry: &Entry<()>) -> Entry<()> {
    Entry { topic: Arc::clone(&entry.topic), lane: entry.lane.clone(), ..*entry }
}

fn held(window: &Window<()>, topic: &str) -> usize {
    window.slots.iter().flatten().filter(|held| &*held.entry.topic == topic).count()
}

/// Everything of a topic that can leave does, and is confirmed.
fn deliver(window: &mut Window<()>, slots: &[Slot], now: Duration) {
    slots.iter().for_each(|slot| window.confirmed(*slot, now));
    window.marked(slots);
}

#[test]
fn out_05_a_topic_that_moved_and_stops_gives_up_what_it_has_too_much() {
    let mut window = Window::new(BOUNDS);
    let mut outbox: Vec<_> = (0..1_000).map(|id| entry(id, 0, None, 1)).collect();
    read(&mut window, &outbox, 32, AT);
    let first = window.launch(AT, 1, all);
    deliver(&mut window, &first, AT);
    outbox.remove(0);
    // It moves, and may have everything. Then its leader goes away, with half of the window on the way.
    read(&mut window, &outbox, 64, AT);
    assert_eq!(window.room().rows, 0);
    let flying = window.launch(AT, usize::MAX, all);
    assert_eq!(flying.len(), 32, "what is on its way cannot be given up");
    outbox.extend((1_000..1_100).map(|id| entry(id, 1, None, 1)));
    assert!(!read(&mut window, &outbox, 64, AT));
    assert!(read(&mut window, &outbox, 64, AT * 2), "there is room again");
    assert_eq!((held(&window, "t0"), held(&window, "t1")), (32, 16));
    // The healthy one goes on as long as it has something.
    let mut now = AT * 2;
    while outbox.iter().any(|row| &*row.topic == "t1") {
        let slots = window.launch(now, usize::MAX, all);
        assert!(!slots.is_empty() && slots.iter().all(|slot| &*window.get(*slot).topic == "t1"));
        let ids: HashSet<i64> = slots.iter().map(|slot| window.get(*slot).id).collect();
        deliver(&mut window, &slots, now);
        outbox.retain(|row| !ids.contains(&row.id));
        now += Duration::from_millis(10);
        read(&mut window, &outbox, 64, now);
    }
    // What was given up is read again once the others come through.
    flying.iter().for_each(|slot| window.troubled(*slot, true));
    let slots = window.launch(now, usize::MAX, all);
    deliver(&mut window, &slots, now);
    assert!(read(&mut window, &outbox, 64, now));
    assert!(window.room().rows < 32);
}

#[test]
fn out_05_a_partition_without_a_leader_keeps_to_the_cap_though_its_topic_moves() {
    let mut window = Window::new(BOUNDS);
    let mut outbox: Vec<_> = (0..400).map(|id| entry(id, 0, Some(u8::try_from(id % 100).unwrap()), 1)).collect();
    outbox.extend((400..500).map(|id| entry(id, 1, None, 1)));
    let mut now = AT;
    // Every second key is of the partition that does not answer.
    let mut others = HashSet::new();
    for _ in 0..500 {
        now += Duration::from_millis(100);
        read(&mut window, &outbox, 16, now);
        window.launch(now, usize::MAX, all);
        let through = |slot: &Slot| &*window.get(*slot).topic == "t1" || window.get(*slot).id % 2 == 0;
        let slots: Vec<Slot> = window.all_flying().into_iter().filter(through).collect();
        let ids: HashSet<i64> = slots.iter().map(|slot| window.get(*slot).id).collect();
        deliver(&mut window, &slots, now);
        outbox.retain(|row| !ids.contains(&row.id));
        others.extend(ids.into_iter().filter(|id| *id >= 400));
    }
    assert_eq!(others.len(), 100, "another topic goes on");
    assert!(held(&window, "t0") <= 32, "{}", held(&window, "t0"));
}

#[test]
fn out_05_a_hot_key_leaves_the_others_their_pace() {
    let mut window = Window::new(BOUNDS);
    let mut outbox: Vec<_> = (0..60).map(|id| entry(id, 0, Some(0), 1)).collect();
    outbox.extend((60..160).map(|id| entry(id, 0, Some(u8::try_from(id).unwrap()), 1)));
    let mut now = AT;
    let mut sent = Vec::new();
    for turn in 0..200 {
        now += Duration::from_millis(10);
        read(&mut window, &outbox, 16, now);
        let hot = window.slots.iter().flatten().filter(|held| held.entry.id < 60).count();
        assert!(hot <= BOUNDS.rows / 16, "{hot}");
        let slots = window.launch(now, usize::MAX, all);
        let ids: Vec<i64> = slots.iter().map(|slot| window.get(*slot).id).collect();
        deliver(&mut window, &slots, now);
        outbox.retain(|row| !ids.contains(&row.id));
        if turn == 30 {
            assert!(outbox.iter().all(|row| row.id < 60) && outbox.len() > 20, "{}", outbox.len());
        }
        sent.extend(ids.into_iter().filter(|id| *id < 60));
    }
    assert_eq!(sent, (0..60).collect::<Vec<_>>());
}

#[test]
fn what_is_given_up_of_a_lane_is_its_end_and_comes_back_before_what_follows() {
    let mut window = Window::new(Bounds { rows: 640, bytes: 6_400 });
    let mut outbox: Vec<_> = (0..40).map(|id| entry(id, 0, Some(1), 1)).collect();
    outbox.extend((40..640).map(|id| entry(id, 0, None, 1)));
    read(&mut window, &outbox, 20, AT);
    let first = window.launch(AT, usize::MAX, all);
    deliver(&mut window, &first, AT);
    outbox.remove(0);
    read(&mut window, &outbox, 640, AT);
    window.prune(AT * 3);
    let lane: Vec<i64> =
        window.lanes.values().flat_map(|queue| &queue.slots).map(|slot| window.get(*slot).id).collect();
    assert_eq!(lane, (1..40).collect::<Vec<_>>(), "the highest ids go first");
    assert_eq!(window.room().rows, 320);
    window.admit((640..900).map(|id| entry(id, 1, None, 1)), AT * 3);
    window.admit((900..1_000).map(|id| entry(id, 2, None, 1)), AT * 3);
    assert!(window.ids().len() <= 640);
}

#[test]
fn trouble_of_a_topic_pauses_it_alone() {
    let mut window = Window::new(BOUNDS);
    window.admit([entry(1, 0, Some(1), 1), entry(2, 1, Some(1), 1)], AT);
    let slots = window.launch(AT, 10, all);
    let bad = *slots.iter().find(|slot| window.get(**slot).id == 1).unwrap();
    window.back(bad, true);
    assert_eq!(window.troubles("t0", AT), Some(0));
    window.pause("t0", AT * 2);
    assert_eq!((window.troubles("t0", AT), window.resumes(AT)), (None, Some(AT * 2)));
    assert!(window.launch(AT, 10, all).is_empty());
    assert!(window.is_troubled());
    assert_eq!(window.launch(AT * 2, 10, all), [bad]);
    assert!(window.is_troubled(), "until something of it is confirmed");
    window.confirmed(bad, AT * 2);
    assert!(!window.is_troubled());
}

#[test]
fn out_03_what_waits_of_a_lost_shard_is_forgotten_and_what_flies_is_not() {
    let mut window = Window::new(BOUNDS);
    window.admit([entry(1, 0, Some(1), 1), entry(2, 0, Some(1), 1), entry(3, 1, Some(1), 1)], AT);
    let flying = window.launch(AT, 10, |shard| shard == 0);
    window.lose(&[0]);
    let mut ids = window.ids();
    ids.sort_unstable();
    assert_eq!(ids, [1, 3]);
    assert!(window.busy().contains(&0));
    // It comes to nothing, and the shard is another's: that one sends it again.
    window.back(flying[0], false);
    assert_eq!((window.ids(), window.flying(), window.busy().len()), (vec![3], 0, 0));
}

#[test]
fn a_refused_record_takes_those_behind_it_along() {
    let mut window = Window::new(BOUNDS);
    window.admit([entry(1, 0, Some(1), 1), entry(2, 0, Some(1), 1), entry(3, 0, Some(2), 1)], AT);
    let slots = window.launch(AT, 10, all);
    let first = *slots.iter().find(|slot| window.get(**slot).id == 1).unwrap();
    assert!(window.refused(first, AT, true));
    assert!(window.launch(AT, 10, all).is_empty(), "its lane waits for the database");
    window.recorded(first);
    assert_eq!(window.ids(), [3]);
}
