use proptest::prelude::*;

use super::*;

const LATER: Duration = Duration::from_secs(100);

/// The table of shards as relays see it.
#[derive(Debug, Default)]
struct Table {
    owner: [Option<usize>; SHARDS],
}

impl Table {
    /// As `keep` does.
    fn keep(&mut self, relay: usize, live: usize) -> Kept {
        let of = |owner: Option<usize>, table: &Self| -> Vec<i16> {
            all().filter(|shard| table.owner[usize::try_from(*shard).unwrap()] == owner).collect()
        };
        let renewed = of(Some(relay), self);
        let free = of(None, self);
        let lacking = fair(live).saturating_sub(renewed.len());
        let taken: Vec<i16> = free.into_iter().take(lacking).collect();
        taken.iter().for_each(|shard| self.owner[usize::try_from(*shard).unwrap()] = Some(relay));
        Kept { live, renewed, taken }
    }

    fn free(&mut self, shards: &[i16]) {
        shards.iter().for_each(|shard| self.owner[usize::try_from(*shard).unwrap()] = None);
    }
}

proptest! {
    #[test]
    fn relays_come_to_equal_shares_and_nothing_is_left_alone(
        before in 1..12usize, after in 1..12usize, dead in 0..12usize,
    ) {
        let mut table = Table::default();
        let mut relays: Vec<Shards> = (0..before.max(after)).map(|_| Shards::default()).collect();
        let rounds = |relays: &mut Vec<Shards>, table: &mut Table, live: usize| {
            for _ in 0..4 {
                for (relay, shards) in relays.iter_mut().enumerate().take(live) {
                    let kept = table.keep(relay, live);
                    shards.kept(&kept, LATER);
                    shards.balance(live, |_| true);
                    let closing = shards.closing();
                    table.free(&closing);
                    shards.released(&closing);
                }
            }
        };
        rounds(&mut relays, &mut table, before);
        // Some die, and their leases end; others come.
        let gone: Vec<i16> = all()
            .filter(|shard| table.owner[usize::try_from(*shard).unwrap()].is_some_and(|owner| owner >= after || owner == dead))
            .collect();
        table.free(&gone);
        rounds(&mut relays, &mut table, after);
        prop_assert!(table.owner.iter().all(|owner| owner.is_some_and(|owner| owner < after)));
        for (relay, shards) in relays.iter().enumerate().take(after) {
            let has = table.owner.iter().filter(|owner| **owner == Some(relay)).count();
            prop_assert!(has <= fair(after), "{relay} has {has}");
            prop_assert_eq!(has, shards.count());
        }
    }
}

fn renewed(shards: &[i16]) -> Kept {
    Kept { live: 1, renewed: shards.to_vec(), taken: Vec::new() }
}

fn taken(shards: &[i16]) -> Kept {
    Kept { live: 1, renewed: Vec::new(), taken: shards.to_vec() }
}

#[test]
fn out_03_a_lease_counts_from_before_it_was_asked_for() {
    let mut shards = Shards::default();
    shards.kept(&taken(&[3]), LATER);
    assert!(shards.may_send(3, LATER + Duration::from_secs(3)));
    assert!(!shards.may_send(3, LATER + LEASE - MARGIN));
    assert!(shards.owns(3), "until somebody says that it is another's");
    shards.kept(&renewed(&[3]), LATER + LEASE);
    assert!(shards.may_send(3, LATER + LEASE));
}

#[test]
fn what_others_had_in_between_is_stale_even_when_it_comes_back_at_once() {
    let mut shards = Shards::default();
    shards.kept(&taken(&[3, 4]), LATER);
    let epochs = shards.epochs();
    assert_eq!(shards.kept(&Kept { live: 1, renewed: vec![4], taken: vec![3] }, LATER), [3]);
    assert!(shards.owns(3));
    assert!(!shards.held_since(3, &epochs));
    assert!(shards.held_since(4, &epochs));
}

#[test]
fn what_is_closing_is_not_sent_and_idle_ones_go_first() {
    let mut shards = Shards::default();
    shards.kept(&taken(&all().collect::<Vec<_>>()), LATER);
    shards.balance(2, |shard| shard >= 16);
    assert_eq!(shards.closing(), (16..32).collect::<Vec<_>>());
    assert!(!shards.may_send(20, LATER) && shards.may_send(2, LATER));
    // The other one died before it took them.
    shards.balance(1, |_| true);
    assert!(shards.closing().is_empty());
}
