//! The objects that a run creates: pods as people write them, pinned to nothing, small, and accepted by Pod Security
//! `restricted`.

use mullion_engine::model::image::ImageRef;
use mullion_engine::model::names::OS_LABEL;
use mullion_engine::model::published_images::{PublishedImages, TagCaptures};
use mullion_engine::model::windows::Build;
use serde_json::{Value, json};

/// The label of the pods of owners, with the name of the check.
pub(super) const CHECK_LABEL: &str = "mullion-verify";

/// The default Linux image, which exists for both operating systems: nothing in the pod names one.
const LINUX_IMAGE: &str = "registry.k8s.io/pause:3.10";
/// The default image of the DaemonSet, which exists only for Linux, and which no node pulls.
const DAEMON_SET_IMAGE: &str = "docker.io/library/alpine:3.22";
/// The repository of the default Windows images: Microsoft's smallest base image. `published_images.json` has its tags.
const WINDOWS_REPOSITORY: &str = "mcr.microsoft.com/windows/nanoserver";

/// The images of a run, as `--image` sets them.
#[derive(Debug, Clone, Default)]
pub(super) struct Images {
    pub(super) linux: Option<String>,
    pub(super) windows: Option<String>,
}

impl Images {
    /// The image of Linux pods.
    pub(super) fn linux(&self) -> String {
        self.linux.clone().unwrap_or_else(|| LINUX_IMAGE.to_owned())
    }

    /// The image of the DaemonSet.
    pub(super) fn daemon_set(&self) -> String {
        self.linux.clone().unwrap_or_else(|| DAEMON_SET_IMAGE.to_owned())
    }

    /// The image of a build; `None` if none is published. A repository without a tag gets the tag of the published image; a
    /// reference with a tag or a digest is used for every build.
    pub(super) fn windows(&self, build: Build) -> Option<String> {
        let given = self.windows.as_deref().unwrap_or(WINDOWS_REPOSITORY);
        let has_tag = ImageRef::parse(given).is_ok_and(|image| image.tag().is_some() || image.digest().is_some());
        if has_tag { Some(given.to_owned()) } else { Some(format!("{given}:{}", published_tag(build)?)) }
    }
}

/// Whether a text is an image reference.
pub(super) fn is_image(text: &str) -> bool {
    ImageRef::parse(text).is_ok()
}

/// The tag of Microsoft's image for a build.
fn published_tag(build: Build) -> Option<String> {
    let any = format!("{WINDOWS_REPOSITORY}:ltsc2022");
    let row = PublishedImages::shipped().row(&ImageRef::parse(&any).ok()?)?;
    row.published.get(&build)?.fill("", &TagCaptures::default(), || None)
}

/// A Linux pod that specifies nothing about nodes.
pub(super) fn linux_pod(name: &str, image: &str) -> Value {
    pod(
        name,
        &json!({
            "securityContext": {"runAsNonRoot": true, "seccompProfile": {"type": "RuntimeDefault"}},
            "containers": [{
                "name": "verify",
                "image": image,
                "resources": {"requests": {"cpu": "10m", "memory": "16Mi"}, "limits": {"memory": "64Mi"}},
                "securityContext": {"allowPrivilegeEscalation": false, "capabilities": {"drop": ["ALL"]}},
            }],
        }),
    )
}

/// A Linux pod that selects Linux.
pub(super) fn explicit_linux_pod(name: &str, image: &str) -> Value {
    with_spec(linux_pod(name, image), &json!({"nodeSelector": {OS_LABEL: "linux"}}))
}

/// A Windows pod that specifies nothing but its image. Its container ends at once, which shows that it started.
pub(super) fn windows_pod(name: &str, image: &str) -> Value {
    pod(
        name,
        &json!({
            "securityContext": {"runAsNonRoot": true},
            "containers": [{
                "name": "verify",
                "image": image,
                "command": ["cmd", "/c", "exit", "0"],
                "resources": {"requests": {"cpu": "50m", "memory": "64Mi"}, "limits": {"memory": "256Mi"}},
            }],
        }),
    )
}

/// A Windows pod with three fields that Windows does not have.
pub(super) fn refused_pod(name: &str, image: &str) -> Value {
    let mut object =
        with_spec(windows_pod(name, image), &json!({"hostNetwork": true, "securityContext": {"runAsUser": 1000}}));
    if let Some(container) = object.pointer_mut("/spec/containers/0").and_then(Value::as_object_mut) {
        container.insert("securityContext".to_owned(), json!({"privileged": true}));
    }
    object
}

/// A HostProcess pod.
pub(super) fn host_process_pod(name: &str, image: &str) -> Value {
    let options = json!({"hostProcess": true, "runAsUserName": "NT AUTHORITY\\LOCAL SERVICE"});
    with_spec(windows_pod(name, image), &json!({"hostNetwork": true, "securityContext": {"windowsOptions": options}}))
}

/// A Linux DaemonSet that tolerates everything.
pub(super) fn daemon_set(name: &str, image: &str) -> Value {
    let spec = json!({"tolerations": [{"operator": "Exists"}], "restartPolicy": "Always"});
    owner("apps/v1", "DaemonSet", name, &with_spec(linux_pod(name, image), &spec), &json!({"selector": selector(name)}))
}

/// A Job with one attempt for this pod.
pub(super) fn job(name: &str, pod: &Value) -> Value {
    owner("batch/v1", "Job", name, pod, &json!({"backoffLimit": 0}))
}

/// A StatefulSet with one replica of this pod.
pub(super) fn stateful_set(name: &str, pod: &Value) -> Value {
    let pod = with_spec(pod.clone(), &json!({"restartPolicy": "Always"}));
    owner(
        "apps/v1",
        "StatefulSet",
        name,
        &pod,
        &json!({"selector": selector(name), "serviceName": name, "replicas": 1}),
    )
}

fn selector(name: &str) -> Value {
    json!({"matchLabels": {CHECK_LABEL: name}})
}

fn pod(name: &str, spec: &Value) -> Value {
    let common =
        json!({"automountServiceAccountToken": false, "restartPolicy": "Never", "terminationGracePeriodSeconds": 1});
    let object = json!({"apiVersion": "v1", "kind": "Pod", "metadata": {"name": name, "labels": {CHECK_LABEL: name}}, "spec": spec});
    with_spec(object, &common)
}

/// An owner of the pod. `more`: other members of its `spec`.
fn owner(api_version: &str, kind: &str, name: &str, pod: &Value, more: &Value) -> Value {
    let template = json!({"metadata": {"labels": pod.pointer("/metadata/labels")}, "spec": pod.get("spec")});
    let object = json!({"apiVersion": api_version, "kind": kind, "metadata": {"name": name, "labels": {CHECK_LABEL: name}},
        "spec": {"template": template}});
    with_spec(object, more)
}

/// The object with more members in its `spec`, which replace those of the same name.
fn with_spec(mut object: Value, more: &Value) -> Value {
    if let (Some(spec), Some(more)) = (object.get_mut("spec").and_then(Value::as_object_mut), more.as_object()) {
        spec.extend(more.clone());
    }
    object
}

#[cfg(test)]
mod tests {

    #![allow(clippy::unwrap_used, clippy::indexing_slicing, reason = "tests")]

    use super::*;

    #[test]
    fn each_ltsc_build_has_an_image_and_a_given_tag_is_kept() {
        let images = Images::default();
        let of = |build: u32| images.windows(Build::new(build));
        assert_eq!(of(17_763).unwrap(), "mcr.microsoft.com/windows/nanoserver:1809");
        assert_eq!(of(20_348).unwrap(), "mcr.microsoft.com/windows/nanoserver:ltsc2022");
        assert_eq!(of(26_100).unwrap(), "mcr.microsoft.com/windows/nanoserver:ltsc2025");
        // The annual channel has no base image of its own.
        assert_eq!(of(25_398), None);
        let given =
            |text: &str| Images { windows: Some(text.to_owned()), linux: None }.windows(Build::new(20_348)).unwrap();
        assert_eq!(given("registry.corp:5000/nanoserver"), "registry.corp:5000/nanoserver:ltsc2022");
        assert_eq!(given("registry.corp:5000/tools:v1"), "registry.corp:5000/tools:v1");
    }

    #[test]
    fn owners_have_the_pod_and_pods_select_no_node() {
        let pod = windows_pod("job-pod", "image");
        for owner in [job("job-pod", &pod), stateful_set("job-pod", &pod), daemon_set("job-pod", "image")] {
            assert_eq!(owner["spec"]["template"]["metadata"]["labels"][CHECK_LABEL], "job-pod");
            assert!(owner["spec"]["template"]["spec"]["containers"].is_array());
        }
        for pod in [&pod, &linux_pod("a", "b"), &host_process_pod("a", "b")] {
            let spec = pod["spec"].as_object().unwrap();
            assert!(
                !["nodeSelector", "tolerations", "affinity", "nodeName", "os", "runtimeClassName"]
                    .iter()
                    .any(|key| spec.contains_key(*key))
            );
            assert_eq!(spec["terminationGracePeriodSeconds"], 1);
        }
        assert_eq!(refused_pod("a", "b")["spec"]["containers"][0]["securityContext"]["privileged"], true);
    }
}
