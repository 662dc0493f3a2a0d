//! Fields of the settings that keys set: how a field is read from a policy file, how the lists of several policies are
//! merged, and what a field holds, as JSON.

use std::collections::BTreeSet;

use mullion_engine::model::settings::image_patterns::{ImagePattern, ImagePatterns};
use mullion_engine::model::settings::origin::Origin;
use mullion_engine::model::settings::rule_actions::RuleAction;
use mullion_engine::model::settings::workload_settings::Toleration;
use mullion_manifest::node::{Node, NodeValue};
use serde::de::DeserializeOwned;
use serde::{Deserialize, Serialize};
use serde_json::{Error, Value};

/// A field of `T`, made by `field!` or `list!`.
#[derive(Debug)]
pub struct Field<T> {
    /// Its name in `T`.
    pub name: &'static str,
    /// What it holds; null where nothing is set and that is not a value of its own.
    pub value: fn(&T) -> Value,
    /// Copies it from another `T`.
    pub take: fn(&mut T, &T),
    /// Reads it from a policy file.
    pub(crate) read: Read<T>,
    /// Set for a list to which every matching policy adds. Of any other field one policy's value decides.
    pub(crate) list: Option<List<T>>,
}

/// Reads a field; the last argument finds where a node is written. Returns the origins of those entries of a list whose
/// type does not hold them.
type Read<T> = fn(&mut T, &Node, &dyn Fn(&Node) -> Origin) -> Result<Vec<Origin>, Error>;

/// An entry as it is written, and its origin, if its type holds that.
type WrittenEntry = (Value, Option<Origin>);

/// A list to which every matching policy adds.
#[derive(Debug)]
pub(crate) struct List<T> {
    /// Appends the lists of several policies, the highest first.
    pub(crate) merge: fn(&mut T, &mut dyn Iterator<Item = &T>),
    /// The entries.
    pub(crate) entries: fn(&T) -> Vec<WrittenEntry>,
}

/// The field of that name. `value` is stated where its JSON is longer than people want to read.
macro_rules! field {
    ($name:ident) => {
        $crate::schema::field::field!($name, |it| $crate::schema::field::json(&it.$name))
    };
    ($name:ident, $value:expr) => {
        $crate::schema::field::Field {
            name: stringify!($name),
            value: $value,
            take: |it, from| it.$name.clone_from(&from.$name),
            read: |it, node, _| $crate::schema::field::read(&mut it.$name, node),
            list: None,
        }
    };
}
pub(crate) use field;

/// The list of that name, the type of its entries, and how the lists of several policies are merged: [`distinct`],
/// [`first_of_each_rule`] or [`all_patterns`].
macro_rules! list {
    ($name:ident, $entry:ty, $merge:ident) => {
        $crate::schema::field::list!($name, $entry, $merge, |it| $crate::schema::field::json(&it.$name))
    };
    ($name:ident, $entry:ty, $merge:ident, $value:expr) => {
        $crate::schema::field::Field {
            name: stringify!($name),
            value: $value,
            take: |it, from| it.$name.clone_from(&from.$name),
            read: |it, node, place| {
                let (entries, places) = $crate::schema::field::read_entries::<$entry>(node, place)?;
                it.$name = entries.into();
                Ok(places)
            },
            list: Some($crate::schema::field::List {
                merge: |it, all| $crate::schema::field::$merge(&mut it.$name, all.map(|one| &one.$name)),
                entries: |it| it.$name.iter().map($crate::schema::field::written).collect(),
            }),
        }
    };
}
pub(crate) use list;

/// An entry of a list to which every matching policy adds.
pub(crate) trait ListEntry: Clone + Serialize + DeserializeOwned {
    /// Its origin, if its type holds that.
    fn origin(&mut self) -> Option<&mut Option<Origin>> {
        None
    }
}

impl ListEntry for String {}

impl ListEntry for Toleration {}

impl ListEntry for RuleAction {
    fn origin(&mut self) -> Option<&mut Option<Origin>> {
        Some(&mut self.origin)
    }
}

impl ListEntry for ImagePattern {
    fn origin(&mut self) -> Option<&mut Option<Origin>> {
        Some(&mut self.origin)
    }
}

impl<T: Default> Field<T> {
    /// What it holds where no policy sets it.
    pub(crate) fn default(&self) -> Value {
        (self.value)(&T::default())
    }
}

pub(crate) fn read<V: DeserializeOwned>(to: &mut V, node: &Node) -> Result<Vec<Origin>, Error> {
    *to = V::deserialize(node)?;
    Ok(Vec::new())
}

/// The entries of a list, and the origins of those whose type does not hold them.
pub(crate) fn read_entries<E: ListEntry>(
    node: &Node,
    place: &dyn Fn(&Node) -> Origin,
) -> Result<(Vec<E>, Vec<Origin>), Error> {
    let mut entries = Vec::<E>::deserialize(node)?;
    let items = match &node.value {
        NodeValue::List(items) => items.as_slice(),
        _ => &[],
    };
    let mut places = Vec::new();
    for (entry, node) in entries.iter_mut().zip(items) {
        match entry.origin() {
            Some(origin) => *origin = Some(place(node)),
            None => places.push(place(node)),
        }
    }
    Ok((entries, places))
}

/// Plain data: never fails.
pub(crate) fn json(value: &impl Serialize) -> Value {
    serde_json::to_value(value).unwrap_or_default()
}

pub(crate) fn written(entry: &impl ListEntry) -> WrittenEntry {
    (json(entry), entry.clone().origin().and_then(Option::take))
}

/// Each entry once. A second one decides nothing, and with 500 policies that repeat it every rule would look through all.
pub(crate) fn distinct<'a, E: Clone + Ord + 'a>(list: &mut Vec<E>, all: impl Iterator<Item = &'a Vec<E>>) {
    let mut seen = BTreeSet::new();
    list.extend(all.flatten().filter(|entry| seen.insert(*entry)).cloned());
}

/// The first entry for each rule: that of the highest policy decides.
pub(crate) fn first_of_each_rule<'a>(list: &mut Vec<RuleAction>, all: impl Iterator<Item = &'a Vec<RuleAction>>) {
    let mut seen = BTreeSet::new();
    list.extend(all.flatten().filter(|entry| seen.insert(&entry.rule)).cloned());
}

/// All image patterns; none is copied.
pub(crate) fn all_patterns<'a>(list: &mut ImagePatterns, all: impl Iterator<Item = &'a ImagePatterns>) {
    all.for_each(|patterns| list.extend(patterns));
}
