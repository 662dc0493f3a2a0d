//! The pod inside a workload.

use std::collections::HashSet;

use serde_json::Value;

use crate::model::json_pointer::member;
use crate::model::names::CONTAINER_LISTS;
use crate::model::pod_view::container::Container;
use crate::model::settings::Labels;
use crate::model::workload::WorkloadKind;

const HOST_PROCESS_OF_POD: &str = "/spec/securityContext/windowsOptions/hostProcess";
const HOST_PROCESS_OF_CONTAINER: &str = "/securityContext/windowsOptions/hostProcess";

/// The object that has a pod's `metadata` and `spec`: a Pod itself, or the pod template of a workload.
#[derive(Debug, Clone, Copy)]
pub struct Pod<'a> {
    /// JSON pointer of that object inside the workload; empty for a Pod.
    pub pointer: &'static str,
    root: &'a Value,
}

/// A volume with the files of an image.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct ImageVolume<'a> {
    /// Position in `spec.volumes`.
    pub index: usize,
    /// `name`.
    pub name: &'a str,
    /// `image.reference`, as the workload specifies it.
    pub reference: &'a str,
}

impl<'a> Pod<'a> {
    /// The pod in `object`, a workload of that kind; `None` if there is no object where the pod should be.
    pub fn of(kind: WorkloadKind, object: &'a Value) -> Option<Self> {
        let pointer = kind.pod_pointer();
        let root = member(object, pointer)?;
        root.is_object().then_some(Self { pointer, root })
    }

    /// The value at `pointer` below the pod (`/spec/os/name`); JSON null counts as absent, as it does for the API
    /// server.
    pub fn get(&self, pointer: &str) -> Option<&'a Value> {
        member(self.root, pointer).filter(|value| !value.is_null())
    }

    /// The string at `pointer` below the pod; empty strings count as absent.
    pub fn text(&self, pointer: &str) -> Option<&'a str> {
        self.get(pointer).and_then(Value::as_str).filter(|text| !text.is_empty())
    }

    /// The members of the object at `pointer` below the pod whose values are strings.
    pub fn strings(&self, pointer: &str) -> impl Iterator<Item = (&'a str, &'a str)> + use<'a> {
        let members = self.get(pointer).and_then(Value::as_object);
        members.into_iter().flatten().filter_map(|(key, value)| Some((key.as_str(), value.as_str()?)))
    }

    /// The items of the list at `pointer` below the pod.
    pub fn items(&self, pointer: &str) -> &'a [Value] {
        self.get(pointer).and_then(Value::as_array).map_or(&[], Vec::as_slice)
    }

    /// `metadata.labels[key]`.
    pub fn label(&self, key: &str) -> Option<&'a str> {
        self.get("/metadata/labels").and_then(|labels| labels.get(key)).and_then(Value::as_str)
    }

    /// `metadata.annotations[key]`.
    pub fn annotation(&self, key: &str) -> Option<&'a str> {
        self.get("/metadata/annotations").and_then(|all| all.get(key)).and_then(Value::as_str)
    }

    /// Init, regular and ephemeral containers.
    pub fn containers(&self) -> impl Iterator<Item = Container<'a>> + use<'a> {
        let spec = self.get("/spec");
        CONTAINER_LISTS.into_iter().flat_map(move |list| {
            let items = spec.and_then(|spec| spec.get(list)).and_then(Value::as_array);
            items.into_iter().flatten().enumerate().map(move |(index, value)| Container { list, index, value })
        })
    }

    /// The image volumes that a container mounts. The kubelet pulls the others too, but a pull that fails stops only a
    /// container that mounts the volume (`pkg/kubelet/kuberuntime/kuberuntime_manager.go`,
    /// `toKubeContainerImageVolumes`).
    pub fn image_volumes(&self) -> Vec<ImageVolume<'a>> {
        let reference =
            |volume: &'a Value| member(volume, "/image/reference")?.as_str().filter(|text| !text.is_empty());
        let volumes = self.items("/spec/volumes").iter().enumerate();
        let mut found: Vec<ImageVolume<'a>> = volumes
            .filter_map(|(index, volume)| {
                let name = volume.get("name")?.as_str()?;
                Some(ImageVolume { index, name, reference: reference(volume)? })
            })
            .collect();
        if !found.is_empty() {
            let mounts = self.containers().flat_map(|container| container.items("/volumeMounts"));
            let mounted: HashSet<&str> = mounts.filter_map(|mount| mount.get("name")?.as_str()).collect();
            found.retain(|volume| mounted.contains(volume.name));
        }
        found
    }

    /// The container that the absolute `pointer` leads into, and the rest of the pointer below it. Takes the same time
    /// whatever the number of containers.
    pub fn container_of<'p>(&self, pointer: &'p str) -> Option<(Container<'a>, &'p str)> {
        let in_spec = pointer.strip_prefix(self.pointer)?.strip_prefix("/spec/")?;
        let (list, in_list) = in_spec.split_once('/')?;
        let list = CONTAINER_LISTS.into_iter().find(|known| *known == list)?;
        let at = in_list.find('/')?;
        let (index, below) = in_list.split_at_checked(at)?;
        let index = index.parse().ok()?;
        let value = self.get("/spec")?.get(list)?.as_array()?.get(index)?;
        Some((Container { list, index, value }, below))
    }

    /// The absolute pointer of `pointer`, which is relative to the pod.
    pub fn at(&self, pointer: &str) -> String {
        format!("{}{pointer}", self.pointer)
    }

    /// Whether this is a HostProcess pod: the pod or any container sets it (the API server rejects a mixture).
    pub fn host_process(&self) -> bool {
        is_true(self.get(HOST_PROCESS_OF_POD)) || self.host_process_container().is_some()
    }

    /// The pointer below the pod of the field that makes it a HostProcess pod.
    pub fn host_process_field(&self) -> Option<String> {
        if is_true(self.get(HOST_PROCESS_OF_POD)) {
            return Some(HOST_PROCESS_OF_POD.to_owned());
        }
        Some(self.host_process_container()?.pointer() + HOST_PROCESS_OF_CONTAINER)
    }

    fn host_process_container(&self) -> Option<Container<'a>> {
        self.containers().find(|container| is_true(container.get(HOST_PROCESS_OF_CONTAINER)))
    }

    /// Whether `spec.os.name` is `windows`.
    pub fn has_windows_os_field(&self) -> bool {
        self.text("/spec/os/name") == Some("windows")
    }
}

fn is_true(value: Option<&Value>) -> bool {
    value.and_then(Value::as_bool) == Some(true)
}

impl Labels for Pod<'_> {
    fn label(&self, key: &str) -> Option<&str> {
        Pod::label(self, key)
    }
}
