//! Keys that set a field of the settings: how a field is read from a policy file, how the values of several policies are
//! merged, and the field's value as JSON.

use std::collections::BTreeSet;

use serde::Serialize;
use serde::de::DeserializeOwned;
use serde_json::{Error, Value};

use crate::model::schema::origin::Origin;
use crate::model::schema::policy_value::{PolicyObject, to_json};
use crate::model::schema::types::{SchemaKey, ValueShape};

/// A key that sets a field of `T`.
#[derive(Debug)]
pub struct PolicyKey<T: 'static> {
    /// Its dotted path below `spec`.
    pub name: &'static str,
    /// Its row in the schema, whose name is the dotted path.
    pub row: SchemaKey,
    /// The value of its field.
    pub value: fn(&T) -> Value,
    /// Copies its field from another `T`.
    pub take: fn(&mut T, &T),
    /// Reads its field.
    pub read: ReadField<T>,
    /// Set for a list to which every matching policy adds. For any other key the value of one policy decides.
    pub list: Option<PolicyList<T>>,
}

/// Reads a field from its value. The last argument returns the origin of the entry at a position. Returns the origins of
/// list entries whose type has no origin of its own.
pub type ReadField<T> = fn(&mut T, Value, &dyn Fn(usize) -> Origin) -> Result<Vec<Origin>, Error>;

/// A list to which every matching policy adds.
#[derive(Debug)]
pub struct PolicyList<T> {
    /// Appends the lists of several policies, the highest first.
    pub merge: fn(&mut T, &mut dyn Iterator<Item = &T>),
    /// The entries.
    pub entries: fn(&T) -> Vec<EntryJson>,
}

/// An entry as JSON, and its origin, if its type has one.
pub type EntryJson = (Value, Option<Origin>);

/// An entry of a list to which every matching policy adds.
pub trait ListEntry: Clone + Serialize + DeserializeOwned {
    /// Its origin, if its type has one.
    fn origin(&mut self) -> Option<&mut Option<Origin>> {
        None
    }

    /// The entry as JSON, and its origin.
    fn to_entry(&self) -> EntryJson {
        (to_json(self), self.clone().origin().and_then(Option::take))
    }
}

impl ListEntry for String {}

/// Each entry once. A duplicate has no effect, and with 500 policies that repeat it every rule would search all of
/// them.
pub fn distinct<'a, E: Clone + Ord + 'a>(list: &mut Vec<E>, all: impl Iterator<Item = &'a Vec<E>>) {
    let mut seen = BTreeSet::new();
    list.extend(all.flatten().filter(|entry| seen.insert(*entry)).cloned());
}

/// A list of objects as a list of lists: the values of the keys of each, without their names.
pub fn members<T: PolicyObject>(list: &impl Serialize) -> Value {
    let value_of = |object: &Value, key: &SchemaKey| match (object.get(key.name), key.shape) {
        (Some(value), _) => value.clone(),
        (None, ValueShape::List(_)) => Value::Array(Vec::new()),
        (None, _) => Value::Null,
    };
    let values = |object: &Value| -> Value { T::OBJECT.keys.iter().map(|key| value_of(object, key)).collect() };
    to_json(list).as_array().into_iter().flatten().map(values).collect()
}
