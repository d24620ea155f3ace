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
    /// The next rows that the database would give.
    Read(usize),
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
        3 => (1..20usize).prop_map(Step::Read),
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
            rows,
            refused: HashSet::new(),
            flying: Vec::new(),
            marking: Vec::new(),
            recording: Vec::new(),
            delivered: Vec::new(),
        }
    }

    /// As `due` does.
    fn read(&mut self, most: usize) {
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
            !(waits || held.contains(id) || self.refused.contains(id))
        });
        let entries: Vec<_> =
            due.take(most.min(room.rows)).map(|(id, topic, lane)| entry(*id, *topic, *lane, 100)).collect();
        self.window.admit(entries, AT);
    }

    fn step(&mut self, step: &Step) {
        match step {
            Step::Read(rows) => self.read(*rows),
            Step::Launch(most) => self.flying.extend(self.window.launch(AT, *most, all)),
            Step::Confirm(nth) => {
                if let Some(slot) = self.land(*nth) {
                    self.delivered.push(self.window.get(slot).id);
                    self.window.confirmed(slot, AT);
                    self.marking.push(slot);
                }
            }
            Step::Fail(nth) => {
                if let Some(slot) = self.land(*nth) {
                    self.window.back(slot, true);
                }
            }
            Step::Refuse(nth) => {
                if let Some(slot) = self.land(*nth) {
                    assert!(self.window.refused(slot, AT, true));
                    self.recording.push(slot);
                }
            }
            Step::Answer => self.answer(),
            Step::Lose(shard) => self.window.lose(&[*shard]),
        }
    }

    fn answer(&mut self) {
        for slot in std::mem::take(&mut self.marking) {
            let id = self.window.get(slot).id;
            self.rows.retain(|row| row.0 != id);
            self.window.marked(&[slot]);
        }
        for slot in std::mem::take(&mut self.recording) {
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
        assert!(self.window.ids().len() <= BOUNDS.rows, "more is held than may be");
    }

    /// Everything that can leave does.
    fn finish(&mut self) {
        self.refused.clear();
        for _ in 0..10_000 {
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
    assert_eq!(window.launch(AT * 2, 10, all), [bad]);
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
