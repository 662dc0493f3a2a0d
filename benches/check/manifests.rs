//! Input: charts in the form that Helm prints, and the same objects in the form that kubectl prints.

use serde_json::{Value, json};

/// `deployments` documents of `helm template`, about 500 bytes each. One in four has a Windows image, and half of those
/// have a field that does not work on Windows.
pub(crate) fn helm(deployments: usize) -> String {
    (0..deployments).map(document).collect::<Vec<String>>().concat()
}

fn document(n: usize) -> String {
    format!(
        "---
# Source: shop/charts/web-{n}/templates/deployment.yaml
apiVersion: apps/v1
kind: Deployment
metadata:
  name: web-{n}
  labels:
    helm.sh/chart: web-1.2.3
    app.kubernetes.io/name: web
spec:
  replicas: 2
  selector:
    matchLabels: {{app: web-{n}}}
  template:
    metadata:
      labels: {{app: web-{n}}}
    spec:
      containers:
        - name: web
          image: \"{}\"
          ports:
            - containerPort: 8080
          resources:
            limits: {{memory: 256Mi}}
{}",
        image(n),
        if privileged(n) { "          securityContext: {privileged: true}\n" } else { "" }
    )
}

/// The same objects as one List of JSON.
pub(crate) fn kubectl(deployments: usize) -> String {
    let items: Vec<Value> = (0..deployments).map(object).collect();
    serde_json::to_string_pretty(&json!({"apiVersion": "v1", "items": items, "kind": "List"})).expect("JSON")
}

fn object(n: usize) -> Value {
    let mut container = json!({
        "name": "web", "image": image(n), "ports": [{"containerPort": 8080}],
        "resources": {"limits": {"memory": "256Mi"}},
    });
    if let (true, Some(members)) = (privileged(n), container.as_object_mut()) {
        members.insert("securityContext".to_owned(), json!({"privileged": true}));
    }
    json!({
        "apiVersion": "apps/v1",
        "kind": "Deployment",
        "metadata": {"name": format!("web-{n}"), "namespace": "shop", "uid": n.to_string()},
        "spec": {
            "replicas": 2,
            "template": {"metadata": {"labels": {"app": format!("web-{n}")}}, "spec": {"containers": [container]}},
        },
        "status": {"replicas": 2, "conditions": [{"type": "Available", "status": "True"}]},
    })
}

fn image(n: usize) -> &'static str {
    if n.is_multiple_of(4) {
        "mcr.microsoft.com/windows/servercore/iis:windowsservercore-ltsc2022"
    } else {
        "nginx:1.27"
    }
}

fn privileged(n: usize) -> bool {
    n.is_multiple_of(8)
}
