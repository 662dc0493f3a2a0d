//! Objects of the cluster that cannot be read now, as a metric and by name.
//!
//! Like the health of watches, this is global in a process. An object that several watches select counts once.

use std::collections::{BTreeMap, HashMap};
use std::sync::{LazyLock, Mutex, MutexGuard, PoisonError};
use std::time::Instant;

use prometheus_client::metrics::family::Family;
use prometheus_client::metrics::gauge::Gauge;
use prometheus_client::registry::Registry;
use serde::{Deserialize, Serialize};

use crate::telemetry::LogLimit;
use crate::value_hash::hash_of;

/// The maximum number of objects with a name, for `mullion status`; all are counted.
const MAX_NAMED: usize = 20;

static OBJECTS: LazyLock<Mutex<Objects>> = LazyLock::new(Mutex::default);
static GAUGE: LazyLock<Family<Labels, Gauge>> = LazyLock::new(Family::default);
/// Authors of objects can make one unreadable and readable any number of times.
static LOGGED: LogLimit = LogLimit::new();

type Labels = [(&'static str, &'static str); 1];
/// Kind, and the hash of the full name.
type Key = (&'static str, u64);

#[derive(Default)]
struct Objects {
    /// The number of watches that cannot read each object.
    watches: HashMap<Key, usize>,
    /// Why some of them cannot be read, by kind and full name.
    named: BTreeMap<(&'static str, String), String>,
}

/// An object that cannot be read.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase", default)]
pub(crate) struct UnreadableObject {
    pub(crate) kind: String,
    /// `shop/web`, or `web` for a kind without namespaces.
    pub(crate) name: String,
    /// Why, as a clause.
    pub(crate) why: String,
}

/// Adds the number of unreadable objects to a server's metrics.
pub(crate) fn register(registry: &mut Registry) {
    let help = "Objects that cannot be read now, because they are too large or not as expected: Mullion acts as if they \
                did not exist";
    registry.register("unreadable_objects", help, GAUGE.clone());
}

/// How many objects cannot be read now, and the first of them by kind and name.
pub(crate) fn unreadable_objects() -> (usize, Vec<UnreadableObject>) {
    let objects = lock();
    let named = objects.named.iter().map(|((kind, name), why)| UnreadableObject {
        kind: (*kind).to_owned(),
        name: name.clone(),
        why: why.clone(),
    });
    (objects.watches.len(), named.collect())
}

fn lock() -> MutexGuard<'static, Objects> {
    OBJECTS.lock().unwrap_or_else(PoisonError::into_inner)
}

impl Objects {
    fn add(&mut self, kind: &'static str, name: &str, why: &str) {
        let watches = self.watches.entry((kind, hash_of(&name))).or_default();
        *watches += 1;
        if *watches > 1 {
            return;
        }
        if self.named.len() < MAX_NAMED {
            self.named.insert((kind, name.to_owned()), why.to_owned());
        }
        GAUGE.get_or_create(&[("kind", kind)]).inc();
        if let Some(omitted) = LOGGED.pass(Instant::now()) {
            tracing::warn!(kind, name, why, omitted, "an object cannot be read; it is treated as if it did not exist");
        }
    }

    fn remove(&mut self, key: Key) {
        let Some(watches) = self.watches.get_mut(&key) else { return };
        *watches -= 1;
        if *watches == 0 {
            self.watches.remove(&key);
            self.named.retain(|(kind, name), _| (*kind, hash_of(&name)) != key);
            GAUGE.get_or_create(&[("kind", key.0)]).dec();
        }
    }
}

/// The unreadable objects of one watch. Dropping it removes them.
#[derive(Debug)]
pub struct UnreadableSet {
    kind: &'static str,
    /// The objects by the hash of their full name, and the list in which each was last found.
    objects: HashMap<u64, u32>,
    /// The number of the current list.
    list: u32,
}

impl UnreadableSet {
    /// The objects of a kind by its name: `Node`.
    pub fn of(kind: &'static str) -> Self {
        // It exists from the start, as zero.
        drop(GAUGE.get_or_create(&[("kind", kind)]));
        Self { kind, objects: HashMap::new(), list: 0 }
    }

    /// Records that all objects follow.
    pub(crate) fn list_started(&mut self) {
        self.list = self.list.wrapping_add(1);
    }

    /// Records that all objects have been received: what was not in the list is gone.
    pub(crate) fn list_ended(&mut self) {
        let gone: Vec<u64> =
            self.objects.iter().filter(|(_, list)| **list != self.list).map(|(object, _)| *object).collect();
        for object in gone {
            self.remove(object);
        }
    }

    /// Records an object that cannot be read, by its full name.
    pub(crate) fn add(&mut self, name: &str, why: &str) {
        if self.objects.insert(hash_of(&name), self.list).is_none() {
            lock().add(self.kind, name, why);
        }
    }

    /// Records an object that is deleted, or can be read.
    pub(crate) fn clear(&mut self, name: &str) {
        if !self.objects.is_empty() {
            self.remove(hash_of(&name));
        }
    }

    fn remove(&mut self, object: u64) {
        if self.objects.remove(&object).is_some() {
            lock().remove((self.kind, object));
        }
    }
}

impl Drop for UnreadableSet {
    fn drop(&mut self) {
        for object in std::mem::take(&mut self.objects).into_keys() {
            lock().remove((self.kind, object));
        }
    }
}

#[cfg(test)]
mod tests {

    #![allow(clippy::unwrap_used, reason = "tests")]

    use super::*;

    /// The number of objects, and their names.
    fn shown(kind: &'static str) -> (i64, Vec<String>) {
        let number = GAUGE.get_or_create(&[("kind", kind)]).get();
        let named = unreadable_objects().1.into_iter().filter(|object| object.kind == kind);
        (number, named.map(|object| object.name).collect())
    }

    #[test]
    fn an_object_counts_once_and_until_no_watch_has_it() {
        let kind = "Test";
        let (mut one, mut other) = (UnreadableSet::of(kind), UnreadableSet::of(kind));
        for set in [&mut one, &mut other] {
            set.list_started();
            set.add("a/x", "why");
            set.add("a/x", "why");
            set.list_ended();
        }
        assert_eq!(shown(kind), (1, vec!["a/x".to_owned()]));
        one.clear("a/x");
        one.clear("a/y");
        assert_eq!(shown(kind).0, 1);
        other.add("a/z", "why");
        assert_eq!(shown(kind).0, 2);
        // A later list has only one of them.
        other.list_started();
        other.add("a/z", "why");
        other.list_ended();
        assert_eq!(shown(kind), (1, vec!["a/z".to_owned()]));
        drop(other);
        assert_eq!(shown(kind), (0, Vec::new()));
    }
}
