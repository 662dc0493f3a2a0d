//! The keys that decide, by their dotted names: the rows of the [schema](crate::schema) that set a field.

use std::sync::LazyLock;

use mullion_engine::model::settings::node_settings::NodeSettings;
use mullion_engine::model::settings::origin::Origin;
use mullion_engine::model::settings::workload_settings::Settings;
use mullion_manifest::node::Node;
use serde_json::Error;

use crate::schema::field::Field;
use crate::schema::node::NODE_SPEC;
use crate::schema::pod::POD_SPEC;
use crate::schema::types::{Key, Object, Shape};

/// A key that sets a field of `T`.
#[derive(Debug)]
pub struct PolicyKey<T: 'static> {
    /// As policy files have it, below `spec`.
    pub name: String,
    /// Its row in the schema.
    pub row: &'static Key,
    /// What it sets.
    pub field: &'static Field<T>,
}

/// The list of rule actions: what it comes to is said rule by rule, with [`Settings::action_entry`].
pub const ACTIONS: &str = "rules.actions";

/// Every key of a PodPolicy that decides, in the order of a policy file.
pub static POD_KEYS: LazyLock<Vec<PolicyKey<Settings>>> =
    LazyLock::new(|| keys(&POD_SPEC, "", |row| row.settings.as_ref()));

/// Every key of the NodePolicy, in the order of a policy file.
pub static NODE_KEYS: LazyLock<Vec<PolicyKey<NodeSettings>>> =
    LazyLock::new(|| keys(&NODE_SPEC, "", |row| row.node_settings.as_ref()));

fn keys<T>(object: &Object, above: &str, field_of: fn(&'static Key) -> Option<&'static Field<T>>) -> Vec<PolicyKey<T>> {
    let mut all = Vec::new();
    for row in object.keys {
        let name = format!("{above}{}", row.name);
        match (field_of(row), &row.shape) {
            (Some(field), _) => all.push(PolicyKey { name, row, field }),
            (None, Shape::Object(below)) => all.extend(keys(below, &format!("{name}."), field_of)),
            (None, _) => {}
        }
    }
    all
}

impl<T> PolicyKey<T> {
    /// Reads it as [`Field::read`] does; `None` if `spec` does not set it.
    pub(crate) fn read(
        &self,
        to: &mut T,
        spec: &Node,
        place: &dyn Fn(&Node) -> Origin,
    ) -> Result<Option<Vec<Origin>>, Error> {
        let node = self.name.split('.').try_fold(spec, |node, name| node.get(name).map(|entry| &entry.value));
        node.map(|node| (self.field.read)(to, node, place)).transpose()
    }
}

#[cfg(test)]
mod tests;
