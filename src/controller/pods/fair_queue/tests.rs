#![allow(clippy::unwrap_used, clippy::indexing_slicing, reason = "tests")]

use std::time::Duration;

use proptest::prelude::*;

use super::*;

fn all_due(queue: &mut FairQueue<u32, ()>, now: Instant) -> Vec<(String, u32)> {
    std::iter::from_fn(|| queue.take_due(now)).map(|(name, key)| (name.to_string(), key)).collect()
}

#[test]
fn five_thousand_items_of_one_namespace_delay_no_other() {
    let (mut queue, now) = (FairQueue::new(10_000), Instant::now());
    for key in 0..5_000 {
        queue.insert("noisy", key, now, ());
    }
    assert_eq!(queue.take_due(now), Some(("noisy".into(), 0)));
    // Added later, and due later than all of them.
    let later = now + Duration::from_secs(60);
    queue.insert("quiet", 1, later, ());
    assert_eq!(queue.take_due(now), Some(("noisy".into(), 1)), "not before it is due");
    let order: Vec<String> = all_due(&mut queue, later).into_iter().map(|(name, _)| name).collect();
    assert!(order[..2].contains(&"quiet".to_owned()), "{:?}", &order[..3]);
    assert_eq!(order.len(), 4_999);
}

#[test]
fn a_full_queue_leaves_out_those_who_have_the_most() {
    let (mut queue, now) = (FairQueue::new(4), Instant::now());
    let at = |seconds| now + Duration::from_secs(seconds);
    for key in 0..4 {
        assert_eq!(queue.insert("noisy", key, at(key.into()), ()), LeftOut::Nothing);
    }
    assert_eq!(queue.insert("noisy", 4, at(0), ()), LeftOut::TheNew);
    assert_eq!(queue.insert("noisy", 3, at(9), ()), LeftOut::Nothing, "a replacement");
    assert_eq!(queue.insert("quiet", 0, at(0), ()), LeftOut::Another, "the last one that is due");
    assert_eq!(queue.get("noisy", &3), None);
    assert_eq!(queue.insert("quiet", 1, at(0), ()), LeftOut::Another);
    assert_eq!(queue.insert("quiet", 2, at(0), ()), LeftOut::TheNew, "both have two");
    // Work in progress is not dropped.
    assert_eq!(all_due(&mut queue, at(99)).len(), 4);
    assert_eq!(queue.insert("other", 0, at(0), ()), LeftOut::TheNew);
    queue.set_due("quiet", &1, at(5));
    assert_eq!(queue.insert("other", 0, at(0), ()), LeftOut::Another);
    assert_eq!((queue.len(), queue.get("quiet", &1)), (4, None));
}

#[test]
fn an_item_is_taken_once_until_it_is_due_again() {
    let (mut queue, now) = (FairQueue::new(9), Instant::now());
    queue.insert("a", 1, now, ());
    assert_eq!(all_due(&mut queue, now), [("a".to_owned(), 1)]);
    assert_eq!((all_due(&mut queue, now), queue.due("a", &1), queue.len()), (vec![], None, 1));
    queue.set_due("a", &1, now + Duration::from_secs(1));
    assert_eq!(all_due(&mut queue, now), []);
    assert_eq!(all_due(&mut queue, now + Duration::from_secs(1)), [("a".to_owned(), 1)]);
    assert_eq!((queue.remove("a", &1), queue.remove("a", &1), queue.len()), (Some(()), None, 0));
    queue.set_due("a", &1, now);
    assert_eq!(all_due(&mut queue, now), []);
    assert!(
        queue.namespaces.is_empty() && queue.sizes.is_empty() && queue.turns.is_empty() && queue.waiting.is_empty()
    );
}

#[derive(Debug, Clone, Copy)]
enum Step {
    Insert(u8, u32, u64),
    Remove(u8, u32),
    SetDue(u8, u32, u64),
    Take(u64),
}

fn step() -> impl Strategy<Value = Step> {
    let (name, key, due) = (0..4_u8, 0..6_u32, 0..8_u64);
    prop_oneof![
        4 => (name.clone(), key.clone(), due.clone()).prop_map(|(name, key, due)| Step::Insert(name, key, due)),
        1 => (name.clone(), key.clone()).prop_map(|(name, key)| Step::Remove(name, key)),
        1 => (name, key, due.clone()).prop_map(|(name, key, due)| Step::SetDue(name, key, due)),
        2 => due.prop_map(Step::Take),
    ]
}

proptest! {
    /// Compared with a map without turns: the same items with the same due times, never more than the limit, and each
    /// taken item was the first due item of its namespace.
    #[test]
    fn it_keeps_what_a_map_keeps(steps in prop::collection::vec(step(), 0..80), limit in 1..16_usize) {
        let start = Instant::now();
        let at = |seconds: u64| start + Duration::from_secs(seconds);
        let mut queue = FairQueue::new(limit);
        let mut map: BTreeMap<(String, u32), Option<Instant>> = BTreeMap::new();
        for step in steps {
            match step {
                Step::Insert(name, key, due) => {
                    let name = name.to_string();
                    match queue.insert(&name, key, at(due), ()) {
                        LeftOut::TheNew => {}
                        LeftOut::Nothing => drop(map.insert((name, key), Some(at(due)))),
                        LeftOut::Another => {
                            map.insert((name, key), Some(at(due)));
                            let gone = |(name, key): &(String, u32)| queue.get(name.as_str(), key).is_none();
                            let left_out: Vec<_> = map.keys().filter(|key| gone(key)).cloned().collect();
                            prop_assert_eq!(left_out.len(), 1);
                            map.remove(&left_out[0]);
                        }
                    }
                }
                Step::Remove(name, key) => {
                    let name = name.to_string();
                    prop_assert_eq!(queue.remove(&name, &key).is_some(), map.remove(&(name, key)).is_some());
                }
                Step::SetDue(name, key, due) => {
                    let name = name.to_string();
                    queue.set_due(&name, &key, at(due));
                    map.entry((name, key)).and_modify(|standing| *standing = Some(at(due)));
                }
                Step::Take(now) => {
                    let first = |of: &str| {
                        let of_it = map.iter().filter(|((name, _), _)| name == of);
                        of_it.filter_map(|((_, key), due)| Some(((*due)?, *key))).min()
                    };
                    match queue.take_due(at(now)) {
                        None => prop_assert!(map.values().flatten().all(|due| *due > at(now))),
                        Some((name, key)) => {
                            prop_assert!(first(&name).is_some_and(|(due, first)| due <= at(now) && first == key));
                            map.insert((name.to_string(), key), None);
                        }
                    }
                }
            }
            prop_assert!(queue.len() <= limit && queue.len() == map.len());
            for ((name, key), due) in &map {
                prop_assert_eq!(queue.due(name.as_str(), key), *due);
            }
        }
    }

    /// Between two items of one namespace every other namespace with due items has at most two.
    #[test]
    fn namespaces_take_turns(counts in prop::collection::vec(1..30_usize, 1..6)) {
        let (mut queue, now) = (FairQueue::new(1_000), Instant::now());
        for (name, count) in counts.iter().enumerate() {
            for key in 0..*count {
                // The items of the first namespace have been due for the longest time.
                queue.insert(&name.to_string(), u32::try_from(key).unwrap(), now + Duration::from_secs(name as u64), ());
            }
        }
        let order = all_due(&mut queue, now + Duration::from_secs(9));
        prop_assert_eq!(order.len(), counts.iter().sum::<usize>());
        let mut left = counts.clone();
        let mut since = vec![vec![0_usize; counts.len()]; counts.len()];
        for (name, _) in &order {
            let at: usize = name.parse().unwrap();
            left[at] -= 1;
            since[at].fill(0);
            for other in (0..counts.len()).filter(|other| *other != at && left[*other] > 0) {
                since[other][at] += 1;
                prop_assert!(since[other][at] <= 2, "{other} waits: {order:?}");
            }
        }
    }

    /// In any order of insertions, each namespace keeps its equal share of the room, or all its items.
    #[test]
    fn nobody_gets_less_than_an_equal_share(names in prop::collection::vec(0..5_u8, 0..200), limit in 5..40_usize) {
        let (mut queue, now) = (FairQueue::new(limit), Instant::now());
        let mut wanted: BTreeMap<u8, usize> = BTreeMap::new();
        for (key, name) in names.iter().enumerate() {
            queue.insert(&name.to_string(), u32::try_from(key).unwrap(), now, ());
            *wanted.entry(*name).or_default() += 1;
        }
        for (name, wanted_of_it) in &wanted {
            let kept = queue.namespaces.get(name.to_string().as_str()).map_or(0, |items| items.by_key.len());
            prop_assert!(kept >= (*wanted_of_it).min(limit / wanted.len()), "{kept} of {wanted_of_it}: {queue:?}");
        }
    }
}
