//! NodePools and node classes of Karpenter: what is known of the nodes that it can start.

use std::collections::BTreeMap;
use std::sync::Arc;

use mullion_engine::model::cluster::Taint;
use mullion_engine::model::names::WINDOWS_BUILD_LABEL;
use mullion_engine::model::scheduling::Expression;
use mullion_engine::model::windows::{Build, build_of_release};
use serde::Deserialize;
use serde_json::Value;

/// The maximum number of requirements, of labels and of taints of a NodePool that are read, and of values of one
/// requirement. The API server accepts 100 requirements.
const MAX_ITEMS: usize = 100;

/// A NodePool.
#[derive(Debug, Clone)]
pub(crate) struct NodePoolRecord {
    pub(crate) name: Arc<str>,
    /// The labels of its template.
    pub(crate) labels: BTreeMap<String, String>,
    /// What it requires of the labels of its nodes.
    pub(crate) requirements: Vec<Expression>,
    /// The taints of its nodes, without those that go away when a node has started.
    pub(crate) taints: Vec<Taint>,
    /// Kind and name.
    pub(crate) class: (String, String),
}

/// Reads a NodePool. What is not as Karpenter's API requires counts as absent.
pub(crate) fn read_node_pool(name: Arc<str>, object: &Value) -> NodePoolRecord {
    let template = |pointer: &str| object.pointer("/spec/template").and_then(|template| template.pointer(pointer));
    let items = |pointer: &str| template(pointer).and_then(Value::as_array).into_iter().flatten().take(MAX_ITEMS);
    let text = |pointer: &str| template(pointer).and_then(Value::as_str).unwrap_or_default().to_owned();
    let labels = template("/metadata/labels").and_then(Value::as_object).into_iter().flatten().take(MAX_ITEMS);
    let requirements = items("/spec/requirements").filter_map(|one| Expression::deserialize(one).ok());
    NodePoolRecord {
        name,
        labels: labels.filter_map(|(key, value)| Some((key.clone(), value.as_str()?.to_owned()))).collect(),
        requirements: requirements
            .map(|mut one| {
                one.values.iter_mut().for_each(|values| values.truncate(MAX_ITEMS));
                one
            })
            .collect(),
        taints: items("/spec/taints").filter_map(Taint::from_json).collect(),
        class: (text("/spec/nodeClassRef/kind"), text("/spec/nodeClassRef/name")),
    }
}

/// The Windows build that a node class names: `amiFamily: Windows2022`, or the alias `windows2022@latest` of an image
/// (aws/karpenter-provider-aws `pkg/providers/amifamily/windows.go`). `None` for another system or an image of its own.
pub(crate) fn read_node_class(object: &Value) -> Option<Build> {
    let text = |pointer: &str| object.pointer(pointer).and_then(Value::as_str);
    let mut named =
        ["/spec/amiFamily", "/spec/amiSelectorTerms/0/alias", "/spec/imageFamily"].into_iter().filter_map(text);
    named.find_map(build_of_family)
}

fn build_of_family(family: &str) -> Option<Build> {
    let family = family.split('@').next()?.to_ascii_lowercase();
    build_of_release(family.strip_prefix("windows")?, &[]).ok()
}

impl NodePoolRecord {
    /// The values that the nodes can have of a label; `None` if the template does not have it.
    pub(crate) fn values(&self, key: &str) -> Option<Vec<&str>> {
        if let Some(value) = self.labels.get(key) {
            return Some(vec![value]);
        }
        let of_key = self.requirements.iter().find(|one| one.key == key && one.operator == "In")?;
        Some(of_key.values.iter().flatten().map(String::as_str).collect())
    }

    /// The build that the label in its template states.
    pub(crate) fn labeled_build(&self) -> Option<Build> {
        match self.values(WINDOWS_BUILD_LABEL)?.as_slice() {
            [only] => Build::from_label(only),
            _ => None,
        }
    }
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used, reason = "tests")]

    use serde_json::json;

    use super::*;

    #[test]
    fn builds_of_node_classes() {
        let class = |spec: Value| read_node_class(&json!({ "spec": spec })).map(|build| build.to_string());
        assert_eq!(class(json!({"amiFamily": "Windows2022"})).unwrap(), "10.0.20348");
        assert_eq!(class(json!({"amiSelectorTerms": [{"alias": "windows2025@latest"}]})).unwrap(), "10.0.26100");
        for spec in [
            json!({"amiFamily": "AL2023"}),
            json!({"amiSelectorTerms": [{"id": "ami-1"}]}),
            json!({"imageFamily": "Ubuntu"}),
            json!({"amiFamily": "Windows"}),
            json!({"amiFamily": 2022}),
            json!([]),
        ] {
            assert_eq!(class(spec.clone()), None, "{spec}");
        }
    }

    #[test]
    fn what_is_not_as_required_is_absent() {
        for template in [json!(null), json!([]), json!({"spec": {"requirements": {}, "taints": "a"}, "metadata": 1})] {
            let pool = read_node_pool("p".into(), &json!({"spec": {"template": template}}));
            assert!(pool.labels.is_empty() && pool.requirements.is_empty() && pool.taints.is_empty());
        }
        let many: Vec<Value> =
            (0..1_000).map(|at| json!({"key": format!("k{at}"), "operator": "In", "values": ["a"]})).collect();
        let pool = read_node_pool("p".into(), &json!({"spec": {"template": {"spec": {"requirements": many}}}}));
        assert_eq!(pool.requirements.len(), MAX_ITEMS);
    }
}
