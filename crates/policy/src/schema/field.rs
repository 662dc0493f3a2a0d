//! Fields of the settings that keys set: how a field is read from a policy file, how the lists of several policies are
//! merged, and the field's value as JSON.

use std::collections::BTreeSet;

use mullion_engine::model::settings::{ImagePattern, ImagePatterns, Origin, RuleAction, Toleration};
use mullion_manifest::{ManifestNode, NodeValue};
use serde::de::DeserializeOwned;
use serde::{Deserialize, Serialize};
use serde_json::{Error, Value};

/// A field of `T`, made by `field!` or `list!`.
#[derive(Debug)]
pub struct SettingField<T> {
    /// Its name in `T`.
    pub name: &'static str,
    /// Its value; null if it is not set and has no default.
    pub value: fn(&T) -> Value,
    /// Copies it from another `T`.
    pub take: fn(&mut T, &T),
    /// Reads it from a policy file.
    pub(crate) read: Read<T>,
    /// Set for a list to which every matching policy adds. For any other field the value of one policy decides.
    pub(crate) list: Option<List<T>>,
}

/// Reads a field; the last argument returns the origin of a node. Returns the origins of list entries whose type has no
/// origin of its own.
type Read<T> = fn(&mut T, &ManifestNode, &dyn Fn(&ManifestNode) -> Origin) -> Result<Vec<Origin>, Error>;

/// An entry as JSON, and its origin, if its type has one.
type EntryJson = (Value, Option<Origin>);

/// A list to which every matching policy adds.
#[derive(Debug)]
pub(crate) struct List<T> {
    /// Appends the lists of several policies, the highest first.
    pub(crate) merge: fn(&mut T, &mut dyn Iterator<Item = &T>),
    /// The entries.
    pub(crate) entries: fn(&T) -> Vec<EntryJson>,
}

/// The field of that name. `value` is passed if the field's own JSON is too long to read.
macro_rules! field {
    ($name:ident) => {
        $crate::schema::field::field!($name, |it| $crate::schema::field::to_json(&it.$name))
    };
    ($name:ident, $value:expr) => {
        $crate::schema::field::SettingField {
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
        $crate::schema::field::list!($name, $entry, $merge, |it| $crate::schema::field::to_json(&it.$name))
    };
    ($name:ident, $entry:ty, $merge:ident, $value:expr) => {
        $crate::schema::field::SettingField {
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
                entries: |it| it.$name.iter().map($crate::schema::field::entry_json).collect(),
            }),
        }
    };
}
pub(crate) use list;

/// An entry of a list to which every matching policy adds.
pub(crate) trait ListEntry: Clone + Serialize + DeserializeOwned {
    /// Its origin, if its type has one.
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

impl<T: Default> SettingField<T> {
    /// Its value if no policy sets it.
    pub(crate) fn default(&self) -> Value {
        (self.value)(&T::default())
    }
}

pub(crate) fn read<V: DeserializeOwned>(to: &mut V, node: &ManifestNode) -> Result<Vec<Origin>, Error> {
    *to = V::deserialize(node)?;
    Ok(Vec::new())
}

/// The entries of a list, and the origins of those whose type has none.
pub(crate) fn read_entries<E: ListEntry>(
    node: &ManifestNode,
    place: &dyn Fn(&ManifestNode) -> Origin,
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

/// The value is plain data, so this never fails.
pub(crate) fn to_json(value: &impl Serialize) -> Value {
    serde_json::to_value(value).unwrap_or_default()
}

pub(crate) fn entry_json(entry: &impl ListEntry) -> EntryJson {
    (to_json(entry), entry.clone().origin().and_then(Option::take))
}

/// Each entry once. A duplicate has no effect, and with 500 policies that repeat it every rule would search all of
/// them.
pub(crate) fn distinct<'a, E: Clone + Ord + 'a>(list: &mut Vec<E>, all: impl Iterator<Item = &'a Vec<E>>) {
    let mut seen = BTreeSet::new();
    list.extend(all.flatten().filter(|entry| seen.insert(*entry)).cloned());
}

/// The first entry for each text: the entries of lower priority match the same rules, and never decide.
pub(crate) fn first_of_each_rule<'a>(list: &mut Vec<RuleAction>, all: impl Iterator<Item = &'a Vec<RuleAction>>) {
    let mut seen = BTreeSet::new();
    list.extend(all.flatten().filter(|entry| seen.insert(&entry.rule)).cloned());
}

/// All image patterns; none is copied.
pub(crate) fn all_patterns<'a>(list: &mut ImagePatterns, all: impl Iterator<Item = &'a ImagePatterns>) {
    all.for_each(|patterns| list.extend(patterns));
}
