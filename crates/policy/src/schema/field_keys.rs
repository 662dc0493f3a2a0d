//! The keys that set a field of the settings, by their dotted names, from the rows of the [schema](crate::schema).

use std::sync::LazyLock;

use mullion_engine::model::settings::{NodeSettings, Origin, Settings};
use mullion_manifest::ManifestNode;
use serde_json::Error;

use crate::schema::pod::POD_SPEC;
use crate::schema::{NODE_SPEC, SchemaKey, SchemaObject, SettingField, ValueShape};

/// A key that sets a field of `T`.
#[derive(Debug)]
pub struct PolicyKey<T: 'static> {
    /// Its dotted path below `spec`.
    pub name: String,
    /// Its row in the schema.
    pub row: &'static SchemaKey,
    /// The field that it sets.
    pub field: &'static SettingField<T>,
}

/// The list of rule actions. Its effect is reported for each rule, with [`Settings::action_entry`].
pub const ACTIONS: &str = "rules.actions";

/// Every key of a PodPolicy that sets a field, in the order of a policy file.
pub static POD_KEYS: LazyLock<Vec<PolicyKey<Settings>>> =
    LazyLock::new(|| keys(&POD_SPEC, "", |row| row.settings.as_ref()));

/// Every key of the NodePolicy, in the order of a policy file.
pub static NODE_KEYS: LazyLock<Vec<PolicyKey<NodeSettings>>> =
    LazyLock::new(|| keys(&NODE_SPEC, "", |row| row.node_settings.as_ref()));

fn keys<T>(
    object: &SchemaObject,
    above: &str,
    field_of: fn(&'static SchemaKey) -> Option<&'static SettingField<T>>,
) -> Vec<PolicyKey<T>> {
    let mut all = Vec::new();
    for row in object.keys {
        let name = format!("{above}{}", row.name);
        match (field_of(row), &row.shape) {
            (Some(field), _) => all.push(PolicyKey { name, row, field }),
            (None, ValueShape::Object(below)) => all.extend(keys(below, &format!("{name}."), field_of)),
            (None, _) => {}
        }
    }
    all
}

impl<T> PolicyKey<T> {
    /// Reads it as [`SettingField::read`] does; `None` if `spec` does not set it.
    pub(crate) fn read(
        &self,
        to: &mut T,
        spec: &ManifestNode,
        place: &dyn Fn(&ManifestNode) -> Origin,
    ) -> Result<Option<Vec<Origin>>, Error> {
        let node = self.name.split('.').try_fold(spec, |node, name| node.get(name).map(|entry| &entry.value));
        node.map(|node| (self.field.read)(to, node, place)).transpose()
    }
}

#[cfg(test)]
mod tests;
