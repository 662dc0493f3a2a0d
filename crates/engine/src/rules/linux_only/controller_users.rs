//! Numeric users that controllers set on containers of their own, whatever the operating system of the pod is.
//!
//! No author wrote them, and these images also exist for Windows, where the kubelet ignores the field.

use serde_json::Value;

use crate::model::image::ImageRef;
use crate::model::pod_view::{Container, Pod};

/// The containers of a controller.
struct ControllerUser {
    /// The last component of their image.
    image: &'static str,
    user: u64,
}

const USERS: [ControllerUser; 2] = [
    // Agones since 1.42: `sidecar` in pkg/gameservers/controller.go, default of `sidecar-run-as-user`.
    ControllerUser { image: "agones-sdk", user: 1000 },
    // Argo Workflows: `MinimalCtrSC` and `MinimalPodSC` in workflow/common/security_context.go.
    ControllerUser { image: "argoexec", user: 8737 },
];

/// Whether a controller set `value`, which the rule of that name reports. `container`: that of the field; `None` for a field
/// of the pod, which counts if all containers are those of the controller.
pub(crate) fn is_of_a_controller(rule: &str, value: &Value, container: Option<Container<'_>>, pod: &Pod<'_>) -> bool {
    if rule != "run-as-user" {
        return false;
    }
    let Some(row) = USERS.iter().find(|row| value.as_u64() == Some(row.user)) else { return false };
    match container {
        Some(container) => row.is_image_of(&container),
        None => pod.containers().next().is_some() && pod.containers().all(|container| row.is_image_of(&container)),
    }
}

impl ControllerUser {
    fn is_image_of(&self, container: &Container<'_>) -> bool {
        let image = container.image().and_then(|image| ImageRef::parse(image).ok());
        image.is_some_and(|image| image.repository().rsplit('/').next() == Some(self.image))
    }
}

#[cfg(test)]
mod tests {

    use serde_json::json;

    use super::*;
    use crate::model::WorkloadKind;

    #[test]
    fn only_the_user_of_the_controller_in_its_own_image_counts() {
        let cases = [
            ("run-as-user", "us-docker.pkg.dev/agones-images/release/agones-sdk:1.42.0", 1000, true),
            ("run-as-user", "us-docker.pkg.dev/agones-images/release/agones-sdk:1.42.0", 1001, false),
            ("run-as-user", "quay.io/argoproj/argoexec:v3.6.2", 8737, true),
            ("run-as-user", "quay.io/argoproj/argoexec:v3.6.2", 1000, false),
            ("run-as-user", "example.com/my-argoexec:v1", 8737, false),
            ("run-as-user", "Not An Image", 8737, false),
            ("fs-group", "quay.io/argoproj/argoexec:v3.6.2", 8737, false),
        ];
        for (rule, image, user, expected) in cases {
            let object = json!({"spec": {"containers": [{"name": "a", "image": image}]}});
            let other = json!({"spec": {"containers": [{"name": "a", "image": image}, {"name": "b", "image": "c"}]}});
            let judge = |object: &Value, in_container: bool| {
                let pod = Pod::of(WorkloadKind::Pod, object);
                pod.is_some_and(|pod| {
                    let container = pod.containers().next().filter(|_| in_container);
                    is_of_a_controller(rule, &json!(user), container, &pod)
                })
            };
            assert_eq!([judge(&object, true), judge(&object, false)], [expected; 2], "{image} {user}");
            assert_eq!([judge(&other, true), judge(&other, false)], [expected, false], "{image} {user}");
        }
    }
}
