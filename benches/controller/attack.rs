//! Webhook and controller beside objects of attackers, with lists that the API server streams and with plain ones.

use kube::Api;
use kube::api::PostParams;
use mullion_cluster::hostile::{DEEP, create_text, large_pod, with_deep_owners};
use mullion_cluster::{ControlPlane, ServingCert};
use serde_json::json;

use crate::fleet;
use crate::running::Running;

/// How many objects of each kind have deep owners of fields.
const DEEP_OBJECTS: usize = 7;
/// Large pods: together they have more than the memory of the controller.
const LARGE_PODS: usize = 40;

pub async fn run(windows: usize) {
    let certificate = ServingCert::for_loopback().unwrap();
    for lists in ["streamed", "plain"] {
        println!("\n{lists} lists");
        let streams = lists == "streamed";
        let builder = ControlPlane::builder().kwok(false).controller_manager(false).scheduler(false);
        let plane = builder.api_server_flag(format!("--feature-gates=WatchList={streams}")).start().await.unwrap();
        fleet::create(&plane, windows, windows * 3).await;
        attack(&plane).await;
        println!("\n{:48} {:>8} {:>8}", "memory, MiB", "resident", "peak");
        let controller = Running::controller(plane.kubeconfig());
        let webhook = Running::webhook(plane.kubeconfig(), certificate.folder());
        controller.wait_until_synced().await;
        webhook.wait_until_synced().await;
        controller.print_memory("controller, at its start");
        webhook.print_memory("webhook, at its start");
        controller.wait_for_patches(windows).await;
        controller.print_memory("controller, all nodes labelled and tainted");
        webhook.print_memory("webhook, all nodes labelled and tainted");
        // All lists are read again, because the versions that were read are in no cache of the new API server.
        plane.restart_api_server().await.unwrap();
        let before = controller.patches().await;
        let nodes: Api<k8s_openapi::api::core::v1::Node> = Api::all(plane.client());
        nodes.create(&PostParams::default(), &fleet::windows("last", 0)).await.unwrap();
        controller.wait_for_patches(before + 1).await;
        webhook.wait_until_synced().await;
        controller.print_memory("controller, lists read again");
        webhook.print_memory("webhook, lists read again");
    }
}

/// Creates pods, `DaemonSets`, namespaces and `RuntimeClasses` with deep owners of fields, and large pods.
async fn attack(plane: &ControlPlane) {
    let tenant = plane.namespace("tenant").await.unwrap();
    let spec = json!({"containers": [{"name": "c", "image": "redis:7"}], "nodeSelector": {"no": "node"}});
    let pods = format!("/api/v1/namespaces/{}/pods", tenant.name);
    let daemon_sets = format!("/apis/apps/v1/namespaces/{}/daemonsets", tenant.name);
    for number in 0..DEEP_OBJECTS {
        let metadata = json!({"name": format!("deep-{number}"), "managedFields": DEEP});
        let template = json!({"metadata": {"labels": {"app": "deep"}, "managedFields": DEEP}, "spec": spec});
        let selector = json!({"matchLabels": {"app": "deep"}});
        for (path, version, object) in [
            (&*pods, "v1", json!({"metadata": metadata, "spec": spec})),
            (
                &daemon_sets,
                "apps/v1",
                json!({"metadata": metadata, "spec": {"selector": selector, "template": template}}),
            ),
            ("/api/v1/namespaces", "v1", json!({"metadata": metadata})),
            ("/apis/node.k8s.io/v1/runtimeclasses", "node.k8s.io/v1", json!({"metadata": metadata, "handler": "runc"})),
        ] {
            create_text(&plane.client(), path, with_deep_owners(version, &object)).await.unwrap();
        }
    }
    for number in 0..LARGE_PODS {
        let pod = large_pod(number, &fleet::windows_name(number)).to_string();
        create_text(&plane.client(), &pods, pod).await.unwrap();
    }
}
