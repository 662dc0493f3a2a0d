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
    /// Names of CSI drivers.
    drivers: HashSet<Arc<str>>,
    /// Those for which the scheduler keeps pods off nodes without them.
    preventing: HashSet<Arc<str>>,
}

/// A claim.
#[derive(Debug)]
struct ClaimRecord {
    volume: Option<Arc<str>>,
    class: Option<Arc<str>>,
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
                let claim =
                    ClaimRecord { volume: name_at("/spec/volumeName"), class: name_at("/spec/storageClassName") };
                self.claims.insert((namespace, name), claim);
            }
            "PersistentVolume" => {
                let driver = name_at("/spec/csi/driver");
                self.volumes.extend(driver.map(|driver| (name, driver)));
            }
            "StorageClass" => {
                let provisioner = name_at("/provisioner");
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

    /// The CSI driver of a claim: of its volume, or else of its class. `None` if it is not known, or is no CSI driver.
    pub(crate) fn driver_of_claim(&self, namespace: &str, name: &str) -> Option<&Arc<str>> {
        let claim = self.claims.get(&(namespace.into(), name.into()))?;
        match &claim.volume {
            Some(volume) => self.volumes.get(volume),
            None => self.driver_of_class(claim.class.as_deref()?),
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
        ] {
            storage.add(kind, &object, |text| text.into());
        }
        let driver = |claim: &str| storage.driver_of_claim("shop", claim).map(|driver| &**driver);
        let found = ["bound", "old", "pending", "manual", "odd", "absent"].map(driver);
        assert_eq!(found, [Some("disk.example"), None, Some("file.example"), None, None, None]);
        assert_eq!(storage.driver_of_claim("other", "bound"), None);
        assert!(storage.prevents_scheduling("file.example") && !storage.prevents_scheduling("disk.example"));
    }
}
