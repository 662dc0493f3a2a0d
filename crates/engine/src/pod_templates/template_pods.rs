//! The pods of one object, as its controller creates them, and what of it could not be read.

use serde_json::Value;

use crate::pod_templates::by_shape;
use crate::pod_templates::expressions::Expressions;
use crate::pod_templates::part::PlacedValue;
use crate::pod_templates::pod_collector::PodCollector;
use crate::pod_templates::table::TEMPLATE_KINDS;
use crate::pod_templates::template_kind::{TemplateKind, TemplateWrites, group_of};
use crate::pod_templates::template_pod::{TemplatePod, UnreadTemplate};

/// The pods of an object that is not a workload of Kubernetes.
#[derive(Debug)]
pub struct TemplatePods {
    /// Its row in the table; `None` for an object of any other kind, in which pod templates were found by their shape.
    pub kind: Option<&'static TemplateKind>,
    /// Its pods, in the order of the object.
    pub pods: Vec<TemplatePod>,
    /// Its parts that have pods and could not be read.
    pub unread: Vec<UnreadTemplate>,
}

/// The pods of an object; `None` if it is of no kind that has some, and contains no pod template.
pub fn template_pods(api_version: &str, kind: &str, object: &Value) -> Option<TemplatePods> {
    let group = group_of(api_version);
    let root = PlacedValue::root(object);
    let Some(row) = TEMPLATE_KINDS.iter().find(|row| row.is(group, kind)) else {
        let mut found = PodCollector::new(object, Expressions::Any);
        by_shape::collect(group, kind, &root, &mut found);
        let (pods, unread) = found.finish();
        return (!pods.is_empty()).then_some(TemplatePods { kind: None, pods, unread });
    };
    let mut found = PodCollector::new(object, row.expressions);
    row.collect(&root, &mut found);
    let (pods, unread) = found.finish();
    Some(TemplatePods { kind: Some(row), pods, unread })
}

impl TemplatePods {
    /// Whether their pod templates were only found by their shape.
    pub fn by_shape(&self) -> bool {
        self.kind.is_none()
    }

    /// The version of Mullion that reads the object first.
    pub fn since(&self) -> &'static str {
        self.kind.map_or(by_shape::SINCE, |kind| kind.since)
    }

    /// Why `mutate --templates` does not write into a pod template of it; `None` if it does.
    pub fn not_written(&self, pod: &TemplatePod) -> Option<&'static str> {
        match self.kind.map(|kind| kind.writes) {
            None => Some("its kind is not known, and its pod template was found by its shape"),
            Some(TemplateWrites::Never(why)) => Some(why),
            Some(TemplateWrites::Templates) if !pod.is_template => {
                Some("its controller puts this pod together, and it is not a complete pod template")
            }
            Some(TemplateWrites::Templates) => None,
        }
    }
}
