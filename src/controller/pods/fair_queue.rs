//! A bounded queue of due work in which namespaces take turns.
//!
//! However much work one namespace has, the next item of another one waits for at most two items of each. A full queue
//! drops an item of the namespace that has the most, so no namespace gets less than an equal share because of another
//! one.

use std::borrow::Borrow;
use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;

use tokio::time::Instant;

/// Items by namespace and key. An item is due at some time, or taken: then work on it is in progress.
#[derive(Debug)]
pub(crate) struct FairQueue<K, V> {
    limit: usize,
    len: usize,
    namespaces: BTreeMap<Arc<str>, Items<K, V>>,
    /// Namespaces by their number of items.
    sizes: BTreeSet<(usize, Arc<str>)>,
    /// Namespaces with a first item that is due, in the order of their turns.
    turns: BTreeSet<(u64, Arc<str>)>,
    /// All other namespaces with an item that is not taken, by the time when the first one is due.
    waiting: BTreeSet<(Instant, Arc<str>)>,
    next_turn: u64,
}

#[derive(Debug)]
struct Items<K, V> {
    by_key: BTreeMap<K, Item<V>>,
    /// Items that are not taken.
    by_due: BTreeSet<(Instant, K)>,
    place: Place,
}

#[derive(Debug)]
struct Item<V> {
    value: V,
    /// When it is due; `None` while it is taken.
    due: Option<Instant>,
}

/// The position of a namespace.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Place {
    /// Every item is taken.
    Nowhere,
    Turn(u64),
    Waiting(Instant),
}

/// The item that an insertion dropped.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum LeftOut {
    Nothing,
    /// An item of the namespace that had the most.
    Another,
    /// The new item, because no namespace has more than its own.
    TheNew,
}

impl<K: Ord + Clone, V> FairQueue<K, V> {
    /// A queue of at most `limit` items.
    pub(crate) fn new(limit: usize) -> Self {
        Self {
            limit,
            len: 0,
            namespaces: BTreeMap::new(),
            sizes: BTreeSet::new(),
            turns: BTreeSet::new(),
            waiting: BTreeSet::new(),
            next_turn: 0,
        }
    }

    pub(crate) fn len(&self) -> usize {
        self.len
    }

    /// Every item with its namespace.
    pub(crate) fn iter(&self) -> impl Iterator<Item = (&str, &V)> {
        self.namespaces
            .iter()
            .flat_map(|(namespace, items)| items.by_key.values().map(move |item| (namespace.as_ref(), &item.value)))
    }

    pub(crate) fn get<Q: Ord + ?Sized>(&self, namespace: &str, key: &Q) -> Option<&V>
    where
        K: Borrow<Q>,
    {
        Some(&self.namespaces.get(namespace)?.by_key.get(key)?.value)
    }

    pub(crate) fn get_mut<Q: Ord + ?Sized>(&mut self, namespace: &str, key: &Q) -> Option<&mut V>
    where
        K: Borrow<Q>,
    {
        Some(&mut self.namespaces.get_mut(namespace)?.by_key.get_mut(key)?.value)
    }

    /// The time when the item is due; `None` if it is taken or does not exist.
    pub(crate) fn due<Q: Ord + ?Sized>(&self, namespace: &str, key: &Q) -> Option<Instant>
    where
        K: Borrow<Q>,
    {
        self.namespaces.get(namespace)?.by_key.get(key)?.due
    }

    /// Adds an item, or replaces the one with its key.
    pub(crate) fn insert(&mut self, namespace: &str, key: K, due: Instant, value: V) -> LeftOut {
        let replaced = self.remove(namespace, &key).is_some();
        let mut left_out = LeftOut::Nothing;
        if !replaced && self.len >= self.limit {
            if !self.make_room(namespace) {
                return LeftOut::TheNew;
            }
            left_out = LeftOut::Another;
        }
        let name = match self.namespaces.get_key_value(namespace) {
            Some((name, _)) => Arc::clone(name),
            None => Arc::from(namespace),
        };
        let items = self.namespaces.entry(Arc::clone(&name)).or_insert_with(|| Items {
            by_key: BTreeMap::new(),
            by_due: BTreeSet::new(),
            place: Place::Nowhere,
        });
        self.sizes.remove(&(items.by_key.len(), Arc::clone(&name)));
        items.by_due.insert((due, key.clone()));
        items.by_key.insert(key, Item { value, due: Some(due) });
        self.sizes.insert((items.by_key.len(), Arc::clone(&name)));
        self.len += 1;
        self.line_up(&name);
        left_out
    }

    pub(crate) fn remove<Q: Ord + ?Sized>(&mut self, namespace: &str, key: &Q) -> Option<V>
    where
        K: Borrow<Q>,
    {
        let (name, items) = self.namespaces.get_key_value(namespace)?;
        let (name, before) = (Arc::clone(name), items.by_key.len());
        let items = self.namespaces.get_mut(namespace)?;
        let (key, item) = items.by_key.remove_entry(key)?;
        if let Some(due) = item.due {
            items.by_due.remove(&(due, key));
        }
        self.len -= 1;
        self.sizes.remove(&(before, Arc::clone(&name)));
        if before > 1 {
            self.sizes.insert((before - 1, Arc::clone(&name)));
        }
        self.line_up(&name);
        if before == 1 {
            self.namespaces.remove(&name);
        }
        Some(item.value)
    }

    /// Takes the next due item: of the namespaces with a due item, from the one whose turn it is.
    pub(crate) fn take_due(&mut self, now: Instant) -> Option<(Arc<str>, K)> {
        while let Some((_, name)) = self.waiting.first().filter(|(due, _)| *due <= now).cloned() {
            self.stand(&name, Place::Turn(self.next_turn));
            self.next_turn += 1;
        }
        while let Some((_, name)) = self.turns.first().cloned() {
            let items = self.namespaces.get_mut(&name)?;
            let first = items.by_due.first().filter(|(due, _)| *due <= now).cloned();
            if let Some((due, key)) = &first {
                items.by_due.remove(&(*due, key.clone()));
                if let Some(item) = items.by_key.get_mut(key) {
                    item.due = None;
                }
            }
            // After those that are waiting for their turn now.
            self.stand(&name, Place::Nowhere);
            self.line_up(&name);
            if let Some((_, key)) = first {
                return Some((name, key));
            }
        }
        None
    }

    /// Makes an item due at that time, whether it is taken or not.
    pub(crate) fn set_due<Q: Ord + ?Sized>(&mut self, namespace: &str, key: &Q, due: Instant)
    where
        K: Borrow<Q>,
    {
        let Some((name, items)) = self.namespaces.get_key_value(namespace) else { return };
        let Some((found, _)) = items.by_key.get_key_value(key) else { return };
        let (name, found) = (Arc::clone(name), found.clone());
        let Some(items) = self.namespaces.get_mut(namespace) else { return };
        let before = items.by_key.get_mut(key).and_then(|item| item.due.replace(due));
        if let Some(before) = before {
            items.by_due.remove(&(before, found.clone()));
        }
        items.by_due.insert((due, found));
        self.line_up(&name);
    }

    /// Removes the last due item of the namespace that has the most, if it has more than another namespace would have
    /// with one more. Returns `false` if there is no such item.
    fn make_room(&mut self, namespace: &str) -> bool {
        let own = self.namespaces.get(namespace).map_or(0, |items| items.by_key.len());
        let Some((most, largest)) = self.sizes.last().cloned() else { return false };
        if most <= own + 1 {
            return false;
        }
        let last = self.namespaces.get(&largest).and_then(|items| items.by_due.last().cloned());
        last.is_some_and(|(_, key)| self.remove(&largest, &key).is_some())
    }

    /// Moves a namespace to the position of its first item, unless it is already waiting for its turn.
    fn line_up(&mut self, name: &Arc<str>) {
        let Some(items) = self.namespaces.get(name) else { return };
        let first = items.by_due.first().map(|(due, _)| *due);
        match (items.place, first) {
            (Place::Turn(_), Some(_)) => {}
            (_, Some(due)) => self.stand(name, Place::Waiting(due)),
            (_, None) => self.stand(name, Place::Nowhere),
        }
    }

    fn stand(&mut self, name: &Arc<str>, place: Place) {
        let Some(items) = self.namespaces.get_mut(name) else { return };
        match std::mem::replace(&mut items.place, place) {
            Place::Nowhere => {}
            Place::Turn(turn) => drop(self.turns.remove(&(turn, Arc::clone(name)))),
            Place::Waiting(due) => drop(self.waiting.remove(&(due, Arc::clone(name)))),
        }
        match place {
            Place::Nowhere => {}
            Place::Turn(turn) => drop(self.turns.insert((turn, Arc::clone(name)))),
            Place::Waiting(due) => drop(self.waiting.insert((due, Arc::clone(name)))),
        }
    }
}

#[cfg(test)]
mod tests;
