//! Deserialization of `request` in one pass: kind and operation come before the objects and decide how much of them is read.

use std::fmt;

use mullion_engine::model::review_request::Operation;
use mullion_engine::model::workload::WorkloadKind;
use serde::Deserialize;
use serde::de::{Deserializer, Error, IgnoredAny, MapAccess, Visitor};
use serde_json::Value;

use crate::webhook::envelope::object::{Extent, Part};
use crate::webhook::envelope::{AdmissionRequest, GroupVersionKind, Text};

#[derive(Deserialize)]
#[serde(field_identifier, rename_all = "camelCase")]
enum Member {
    Uid,
    Kind,
    SubResource,
    Name,
    Namespace,
    Operation,
    Object,
    OldObject,
    DryRun,
    #[serde(other)]
    Other,
}

/// The members so far.
#[derive(Default)]
struct Members<'a> {
    uid: Option<Text<'a>>,
    kind: Option<GroupVersionKind<'a>>,
    sub_resource: Option<Text<'a>>,
    name: Option<Text<'a>>,
    namespace: Option<Text<'a>>,
    operation: Option<Text<'a>>,
    object: Option<Value>,
    old_object: Option<Value>,
    dry_run: Option<bool>,
}

struct Reader;

impl<'de: 'a, 'a> Deserialize<'de> for AdmissionRequest<'a> {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        deserializer.deserialize_map(Reader)
    }
}

impl<'de> Visitor<'de> for Reader {
    type Value = AdmissionRequest<'de>;

    fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("the request of an AdmissionReview")
    }

    fn visit_map<A: MapAccess<'de>>(self, mut map: A) -> Result<Self::Value, A::Error> {
        let mut all = Members::default();
        while let Some(member) = map.next_key()? {
            match member {
                Member::Uid => once(&mut all.uid, "uid", Some(map.next_value()?))?,
                Member::Kind => once(&mut all.kind, "kind", Some(map.next_value()?))?,
                Member::SubResource => once(&mut all.sub_resource, "subResource", map.next_value()?)?,
                Member::Name => once(&mut all.name, "name", map.next_value()?)?,
                Member::Namespace => once(&mut all.namespace, "namespace", map.next_value()?)?,
                Member::Operation => once(&mut all.operation, "operation", Some(map.next_value()?))?,
                Member::Object => {
                    let part = Part::whole(all.extent());
                    once(&mut all.object, "object", Some(map.next_value_seed(part)?))?;
                }
                Member::OldObject => {
                    let part = Part::whole(all.extent());
                    once(&mut all.old_object, "oldObject", Some(map.next_value_seed(part)?))?;
                }
                Member::DryRun => once(&mut all.dry_run, "dryRun", map.next_value()?)?,
                Member::Other => drop(map.next_value::<IgnoredAny>()?),
            }
        }
        Ok(AdmissionRequest {
            uid: required(all.uid, "uid")?.0,
            kind: required(all.kind, "kind")?,
            sub_resource: all.sub_resource,
            name: all.name,
            namespace: all.namespace,
            operation: required(all.operation, "operation")?.0,
            object: all.object.unwrap_or_default(),
            old_object: all.old_object.unwrap_or_default(),
            dry_run: all.dry_run,
        })
    }
}

fn once<T, E: Error>(place: &mut Option<T>, name: &'static str, value: Option<T>) -> Result<(), E> {
    match std::mem::replace(place, value) {
        None => Ok(()),
        Some(_) => Err(E::duplicate_field(name)),
    }
}

fn required<T, E: Error>(value: Option<T>, name: &'static str) -> Result<T, E> {
    value.ok_or_else(|| E::missing_field(name))
}

impl Members<'_> {
    /// How much of the objects is read: the part that the handler of the request reads.
    fn extent(&self) -> Extent {
        // The API server writes kind and operation first; other clients need not.
        let (Some(kind), Some(operation)) = (&self.kind, &self.operation) else { return Extent::Whole };
        let known = WorkloadKind::in_group(&kind.group, &kind.kind).is_some();
        match super::operation(&operation.0) {
            Some(operation @ (Operation::Create | Operation::Update)) if known => Extent::Reviewed(operation),
            Some(Operation::Create | Operation::Update) if is_watched(kind) => Extent::Whole,
            _ => Extent::Nothing,
        }
    }
}

/// Kinds without pods that Mullion reviews.
fn is_watched(GroupVersionKind { group, kind }: &GroupVersionKind<'_>) -> bool {
    group.is_empty() && matches!(kind.as_ref(), "Node" | "ConfigMap")
}
