//! Claims, volumes, storage classes and CSI drivers: which CSI driver a claim of a pod has.

use std::collections::{HashMap, HashSet};
use std::sync::Arc;

use serde_json::Value;

/// The objects of storage that a survey reads from a dump.
#[derive(Debug, Default)]
pub(crate) struct StorageRecords {
    /// By namespace and name.
    claims: HashMap<(Arc<str>, Arc<str>), ClaimRecord>,
    /// CSI drivers by volume; volumes of other kinds are left out.
    volumes: HashMap<Arc<str>, Arc<str>>,
    /// Provisioners by storage class.
    classes: HashMap<Arc<str>, Arc<str>>,
    /// The default class of those that were read, and when it was created.
    default_class: Option<(Box<str>, Arc<str>)>,
    /// Names of CSI drivers.
    drivers: HashSet<Arc<str>>,
    /// Those for which the scheduler keeps pods off nodes without them.
    preventing: HashSet<Arc<str>>,
}

/// A claim.
#[derive(Debug)]
struct ClaimRecord {
    volume: Option<Arc<str>>,
    /// Empty if the claim has only volumes without a class.
    class: Option<Arc<str>>,
}

/// The annotation that was a claim's class before the field existed, and precedes it (`GetPersistentVolumeClaimClass` of
/// Kubernetes).
pub(crate) const CLASS_ANNOTATION: &str = "volume.beta.kubernetes.io/storage-class";

/// The annotations that mark the default class (`IsDefaultAnnotation` of Kubernetes).
pub(crate) const DEFAULT_CLASS_ANNOTATIONS: [&str; 2] =
    ["storageclass.kubernetes.io/is-default-class", "storageclass.beta.kubernetes.io/is-default-class"];

/// The storage class of a claim, or of a template of claims. `None` if it has the default class; empty if it has only volumes
/// without a class.
pub(crate) fn class_of(claim: &Value) -> Option<&str> {
    annotation(claim, CLASS_ANNOTATION).or_else(|| claim.pointer("/spec/storageClassName")?.as_str())
}

fn annotation<'v>(object: &'v Value, key: &str) -> Option<&'v str> {
    object.pointer("/metadata/annotations")?.get(key)?.as_str()
}

impl StorageRecords {
    /// Adds an object of one of these kinds. `text` shares a text.
    pub(crate) fn add(&mut self, kind: &str, object: &Value, mut text: impl FnMut(&str) -> Arc<str>) {
        let mut name_at = |pointer: &str| {
            object.pointer(pointer).and_then(Value::as_str).filter(|name| !name.is_empty()).map(&mut text)
        };
        let Some(name) = name_at("/metadata/name") else { return };
        match kind {
            "PersistentVolumeClaim" => {
                let namespace = name_at("/metadata/namespace").unwrap_or_else(|| "default".into());
                let volume = name_at("/spec/volumeName");
                self.claims.insert((namespace, name), ClaimRecord { volume, class: class_of(object).map(text) });
            }
            "PersistentVolume" => {
                let driver = name_at("/spec/csi/driver");
                self.volumes.extend(driver.map(|driver| (name, driver)));
            }
            "StorageClass" => {
                let provisioner = name_at("/provisioner");
                if DEFAULT_CLASS_ANNOTATIONS.into_iter().any(|key| annotation(object, key) == Some("true")) {
                    self.add_default_class(object, &name);
                }
                self.classes.extend(provisioner.map(|provisioner| (name, provisioner)));
            }
            "CSIDriver" => {
                let prevents = object.pointer("/spec/preventPodSchedulingIfMissing").and_then(Value::as_bool);
                if prevents == Some(true) {
                    self.preventing.insert(Arc::clone(&name));
                }
                self.drivers.insert(name);
            }
            _ => {}
        }
    }

    /// Of several default classes the newest counts, and of those the first by name (`GetDefaultClass` of Kubernetes).
    fn add_default_class(&mut self, class: &Value, name: &Arc<str>) {
        let created = class.pointer("/metadata/creationTimestamp").and_then(Value::as_str).unwrap_or_default();
        let is_behind = |(of_known, known): &(Box<str>, Arc<str>)| {
            **of_known > *created || (**of_known == *created && known <= name)
        };
        if !self.default_class.as_ref().is_some_and(is_behind) {
            self.default_class = Some((created.into(), Arc::clone(name)));
        }
    }

    /// The default class of those that were read.
    pub(crate) fn default_class(&self) -> Option<&str> {
        self.default_class.as_ref().map(|(_, name)| &**name)
    }

    /// Whether the claim was read.
    pub(crate) fn has_claim(&self, namespace: &str, name: &str) -> bool {
        self.claims.contains_key(&(namespace.into(), name.into()))
    }

    /// The CSI driver of a claim: of its volume, or else of its class. `None` if it is not known, or is no CSI driver.
    /// `default_class`: the default class, if it is known.
    pub(crate) fn driver_of_claim(
        &self,
        namespace: &str,
        name: &str,
        default_class: Option<&str>,
    ) -> Option<&Arc<str>> {
        let claim = self.claims.get(&(namespace.into(), name.into()))?;
        match &claim.volume {
            Some(volume) => self.volumes.get(volume),
            None => self.driver_of_class(claim.class.as_deref().or(default_class)?),
        }
    }

    /// The CSI driver that provisions the volumes of a storage class. A provisioner without a CSIDriver can be another program.
    pub(crate) fn driver_of_class(&self, class: &str) -> Option<&Arc<str>> {
        self.classes.get(class).filter(|provisioner| self.drivers.contains(*provisioner))
    }

    /// Whether the scheduler keeps pods off nodes without this driver (`preventPodSchedulingIfMissing`).
    pub(crate) fn prevents_scheduling(&self, driver: &str) -> bool {
        self.preventing.contains(driver)
    }
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    #[test]
    fn the_driver_of_a_claim() {
        let mut storage = StorageRecords::default();
        let named = |name: &str, more: Value| {
            let mut object = json!({"metadata": {"namespace": "shop", "name": name}});
            if let (Some(object), Value::Object(more)) = (object.as_object_mut(), more) {
                object.extend(more);
            }
            object
        };
        let disk = json!({"csi": {"driver": "disk.example"}});
        for (kind, object) in [
            ("PersistentVolume", named("pv", json!({"spec": disk}))),
            ("PersistentVolume", named("nfs", json!({"spec": {}}))),
            ("StorageClass", named("fast", json!({"provisioner": "file.example"}))),
            ("StorageClass", named("local", json!({"provisioner": "kubernetes.io/no-provisioner"}))),
            ("CSIDriver", named("file.example", json!({"spec": {"preventPodSchedulingIfMissing": true}}))),
            (
                "PersistentVolumeClaim",
                named("bound", json!({"spec": {"volumeName": "pv", "storageClassName": "fast"}})),
            ),
            ("PersistentVolumeClaim", named("old", json!({"spec": {"volumeName": "nfs", "storageClassName": "fast"}}))),
            ("PersistentVolumeClaim", named("pending", json!({"spec": {"storageClassName": "fast"}}))),
            ("PersistentVolumeClaim", named("manual", json!({"spec": {"storageClassName": "local"}}))),
            ("PersistentVolumeClaim", named("odd", json!({"spec": 7}))),
            ("PersistentVolumeClaim", named("static", json!({"spec": {"storageClassName": ""}}))),
            (
                "PersistentVolumeClaim",
                json!({"metadata": {"namespace": "shop", "name": "annotated", "annotations": {CLASS_ANNOTATION: "local"}},
                    "spec": {"storageClassName": "fast"}}),
            ),
        ] {
            storage.add(kind, &object, |text| text.into());
        }
        for (claim, of_default, without_default) in [
            ("bound", Some("disk.example"), Some("disk.example")),
            ("old", None, None),
            ("pending", Some("file.example"), Some("file.example")),
            ("manual", None, None),
            ("odd", Some("file.example"), None),
            ("static", None, None),
            ("annotated", None, None),
            ("absent", None, None),
        ] {
            let driver = |default| storage.driver_of_claim("shop", claim, default).map(|name| &**name);
            assert_eq!((driver(Some("fast")), driver(None)), (of_default, without_default), "{claim}");
            assert_eq!(storage.has_claim("shop", claim), claim != "absent", "{claim}");
        }
        assert!(!storage.has_claim("other", "bound"));
        assert_eq!(storage.driver_of_claim("other", "bound", None), None);
        assert!(storage.prevents_scheduling("file.example") && !storage.prevents_scheduling("disk.example"));
    }

    #[test]
    fn the_default_class() {
        let [current, beta] = DEFAULT_CLASS_ANNOTATIONS;
        let class = |name: &str, key: &str, value: Value, created: &str| {
            json!({"metadata": {"name": name, "annotations": {key: value}, "creationTimestamp": created},
                "provisioner": "file.example"})
        };
        let (old, new) = ("2024-01-01T00:00:00Z", "2026-01-01T00:00:00Z");
        let yes = || json!("true");
        for (classes, expected) in [
            (vec![], None),
            (vec![class("a", current, json!("false"), new), class("b", current, json!(true), new)], None),
            (vec![class("a", "example.com/is-default-class", yes(), new)], None),
            (vec![class("a", current, yes(), old)], Some("a")),
            (vec![class("a", current, yes(), old), class("b", beta, yes(), new)], Some("b")),
            (vec![class("b", current, yes(), new), class("a", current, yes(), old)], Some("b")),
            (vec![class("b", current, yes(), new), class("a", current, yes(), new)], Some("a")),
            (vec![class("a", current, yes(), new), class("b", current, yes(), new)], Some("a")),
            (vec![class("a", current, yes(), ""), json!({"metadata": {"name": "b", "annotations": 7}})], Some("a")),
        ] {
            let mut storage = StorageRecords::default();
            for class in &classes {
                storage.add("StorageClass", class, |text| text.into());
            }
            assert_eq!(storage.default_class(), expected, "{classes:?}");
        }
    }
}
