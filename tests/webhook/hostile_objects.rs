//! Objects of any depth, size and redundancy that an API server stores: each gets a review.

use std::fmt::Write as _;
use std::sync::Arc;

use axum::Router;
use axum::http::StatusCode;
use mullion::server::BodyLimits;
use mullion::webhook::{WebhookState, router};
use proptest::prelude::*;
use serde_json::{Value, json};

use crate::patches::{policies, snapshot};
use crate::support::{post, within};

const WINDOWS_IMAGE: &str = "mcr.microsoft.com/windows/nanoserver:ltsc2022";

const POLICY: &str = "apiVersion: mullion.dev/v1alpha1\nkind: PodPolicy\nmetadata: {name: mine}\nspec:\n  \
    rules: {denials: Deny, templates: Deny}\n";

const ENDPOINTS: [&str; 2] = ["/mutate?timeout=30s", "/validate?timeout=30s"];

/// What the text of an object contains instead of values that are too deep for [`Value`].
const DEEP: &str = "\"DEEP\"";

/// With the memory that the program has.
fn routes() -> Router {
    let state = WebhookState::fixed(snapshot(), policies(POLICY));
    router::router(Arc::new(state), BodyLimits::default())
}

/// The `spec` of a pod that is denied.
fn denied_spec() -> Value {
    json!({"containers": [{"name": "c", "image": WINDOWS_IMAGE, "securityContext": {"privileged": true}}]})
}

/// Owners of fields that are nested that deep.
fn nested(levels: usize) -> String {
    format!("{}{{}}{}", r#"{"f:a":"#.repeat(levels), "}".repeat(levels))
}

fn managed_fields() -> Value {
    json!([{"manager": "m", "operation": "Update", "apiVersion": "v1", "fieldsType": "FieldsV1", "fieldsV1": "DEEP"}])
}

/// The body of a request for an object of that kind, and its update if there is an old one.
fn body(group: &str, kind: &str, object: &Value, old: Option<&Value>) -> String {
    let (operation, old) = old.map_or(("CREATE", "null".to_owned()), |old| ("UPDATE", old.to_string()));
    // In the order of the API server, which decides what is read.
    format!(
        r#"{{"kind":"AdmissionReview","apiVersion":"admission.k8s.io/v1","request":{{"uid":"0df28fbd-5f5f-11e8-bc74-36e6bb280816",
        "kind":{{"group":"{group}","version":"v1","kind":"{kind}"}},"name":"web","namespace":"shop","operation":"{operation}",
        "object":{object},"oldObject":{old},"dryRun":false}}}}"#
    )
}

async fn reviewed(router: &Router, endpoint: &str, body: String) -> Value {
    let got = within(post(router, endpoint, body)).await;
    assert_eq!(got.status, StatusCode::OK, "{endpoint}: {}", got.text());
    got.review()
}

/// Writes the value at that pointer.
fn set(object: &mut Value, at: &str, value: Value) {
    let (parent, name) = at.rsplit_once('/').unwrap();
    object.pointer_mut(parent).unwrap()[name] = value;
}

/// Group, kind, object, and the places of metadata in it.
fn objects() -> Vec<(&'static str, &'static str, Value, Vec<&'static str>)> {
    let claim = || json!({"metadata": {"name": "claim"}, "spec": {"accessModes": ["ReadWriteOnce"]}});
    let template = || json!({"metadata": {"labels": {"app": "web"}}, "spec": denied_spec()});
    let mut pod = json!({"metadata": {"name": "web", "namespace": "shop"}, "spec": denied_spec()});
    pod["spec"]["volumes"] = json!([{"name": "v", "ephemeral": {"volumeClaimTemplate": claim()}}]);
    let of = |spec: Value| json!({"metadata": {"name": "web", "namespace": "shop"}, "spec": spec});
    let pods = "/spec/template/metadata";
    vec![
        ("", "Pod", pod, vec!["/metadata", "/spec/volumes/0/ephemeral/volumeClaimTemplate/metadata"]),
        ("apps", "Deployment", of(json!({"template": template()})), vec!["/metadata", pods]),
        ("apps", "DaemonSet", of(json!({"template": template()})), vec!["/metadata", pods]),
        (
            "apps",
            "StatefulSet",
            of(json!({"template": template(), "volumeClaimTemplates": [claim()]})),
            vec!["/metadata", pods, "/spec/volumeClaimTemplates/0/metadata"],
        ),
        (
            "batch",
            "CronJob",
            of(json!({"jobTemplate": {"metadata": {}, "spec": {"template": template()}}})),
            vec!["/metadata", "/spec/jobTemplate/metadata", "/spec/jobTemplate/spec/template/metadata"],
        ),
    ]
}

#[tokio::test]
async fn the_depth_of_field_owners_changes_no_review() {
    let router = routes();
    // The parser reads 127 levels, of which the envelope has some.
    let depths = [100, 121, 130, 100_000];
    for (group, kind, object, places) in objects() {
        for endpoint in ENDPOINTS {
            let mut flat = object.clone();
            set(&mut flat, "/metadata/managedFields", managed_fields());
            let flat_body = |old| body(group, kind, &flat, old).replace(DEEP, "{}");
            let expected = reviewed(&router, endpoint, flat_body(None)).await;
            let denied = expected["allowed"] == false;
            assert_eq!(denied, endpoint.starts_with("/validate"), "{kind}: {expected}");
            let mut before = flat.clone();
            set(&mut before, "/metadata/labels", json!({"before": "true"}));
            let expected_update = reviewed(&router, endpoint, flat_body(Some(&before))).await;
            for place in &places {
                let at = format!("{place}/managedFields");
                let (mut deep, mut old) = (flat.clone(), before.clone());
                set(&mut deep, &at, managed_fields());
                set(&mut old, &at, managed_fields());
                for depth in depths {
                    let text = |old| body(group, kind, &deep, old).replace(DEEP, &nested(depth));
                    let got = reviewed(&router, endpoint, text(None)).await;
                    assert_eq!(got, expected, "{kind} with {depth} levels in {at}");
                    let got = reviewed(&router, endpoint, text(Some(&old))).await;
                    assert_eq!(got, expected_update, "update of {kind} with {depth} levels in {at}");
                }
            }
        }
    }
}

#[tokio::test]
async fn a_list_in_place_of_field_owners_is_skipped() {
    let router = routes();
    let mut pod = json!({"metadata": {"name": "web"}, "spec": denied_spec()});
    pod["metadata"]["managedFields"] = managed_fields();
    let lists = format!("{}{}", "[".repeat(10_000), "]".repeat(10_000));
    for owners in [
        lists.clone(),
        format!(r#"{{"f:metadata":{lists}}}"#),
        format!(r#"{{"f:metadata":{{"f:annotations":{lists}}}}}"#),
        format!(r#"{{"f:metadata":{{"f:annotations":{{"f:mullion.dev/decision":{lists}}}}}}}"#),
    ] {
        let got = reviewed(&router, ENDPOINTS[1], body("", "Pod", &pod, None).replace(DEEP, &owners)).await;
        assert_eq!(got["allowed"], false, "{got}");
    }
}

fn with_terms(terms: &Value) -> Value {
    let mut spec = denied_spec();
    spec["affinity"]["nodeAffinity"]["requiredDuringSchedulingIgnoredDuringExecution"]["nodeSelectorTerms"] =
        terms.clone();
    json!({"metadata": {"name": "web", "namespace": "shop"}, "spec": spec})
}

#[tokio::test]
async fn repeated_requirements_change_no_review() {
    let router = routes();
    let linux = json!({"key": "kubernetes.io/os", "operator": "NotIn", "values": ["linux"]});
    let other = json!({"key": "a", "operator": "Exists"});
    let few = with_terms(&json!([{"matchExpressions": [other, linux]}]));
    let mut repeated = vec![other; 60_000];
    repeated.push(linux);
    let many = with_terms(&json!([{"matchExpressions": repeated}]));
    for endpoint in ENDPOINTS {
        let expected = reviewed(&router, endpoint, body("", "Pod", &few, None)).await;
        assert_eq!(reviewed(&router, endpoint, body("", "Pod", &many, None)).await, expected, "{endpoint}");
    }
}

fn list(number: usize, item: impl Fn(usize) -> Value) -> Value {
    (0..number).map(item).collect()
}

/// Pods of about 3 MiB, each with the member that makes it large; all of them are denied for their first container.
fn large_pods() -> Vec<(&'static str, Value)> {
    let expression = |at: usize| json!({"key": format!("k{at}"), "operator": "Exists"});
    let of = |members: Value| {
        let mut spec = denied_spec();
        spec.as_object_mut().unwrap().extend(members.as_object().unwrap().clone());
        json!({"metadata": {"name": "web", "namespace": "shop"}, "spec": spec})
    };
    let in_container = |member: &str, items: Value| {
        let mut pod = of(json!({}));
        pod["spec"]["containers"][0][member] = items;
        pod
    };
    let mut labels = of(json!({}));
    labels["metadata"]["labels"] = (0..250_000).map(|at| (format!("k{at}"), json!(""))).collect();
    let containers = list(20_000, |at| {
        json!({"name": format!("c{at}"), "image": WINDOWS_IMAGE, "resources": {}, "terminationMessagePath": "/dev/termination-log",
            "securityContext": {"privileged": true}})
    });
    vec![
        ("matchExpressions", with_terms(&json!([{"matchExpressions": list(80_000, expression)}]))),
        ("nodeSelectorTerms", with_terms(&list(50_000, |at| json!({"matchExpressions": [expression(at)]})))),
        (
            "tolerations",
            of(json!({"tolerations": list(80_000, |at| json!({"key": format!("k{at}"), "operator": "Exists"}))})),
        ),
        ("volumes", of(json!({"volumes": list(80_000, |at| json!({"name": format!("v{at}"), "emptyDir": {}}))}))),
        ("ports", in_container("ports", list(80_000, |at| json!({"containerPort": at % 60_000, "protocol": "TCP"})))),
        (
            "volumeMounts",
            in_container("volumeMounts", list(70_000, |at| json!({"name": "v", "mountPath": format!("/v{at}")}))),
        ),
        ("labels", labels),
        (
            "nodeSelector",
            of(json!({"nodeSelector": (0..200_000).map(|at| (format!("k{at}"), json!(""))).collect::<Value>()})),
        ),
        ("containers", of(json!({"containers": containers}))),
    ]
}

#[tokio::test]
async fn no_size_that_is_stored_takes_the_review_away() {
    let router = routes();
    for (member, pod) in large_pods() {
        for old in [None, Some(&pod)] {
            let text = body("", "Pod", &pod, old);
            assert!(text.len() > 2 << 20, "{member}: {} bytes", text.len());
            let got = reviewed(&router, ENDPOINTS[1], text).await;
            // An update of a pod is not denied.
            assert_eq!(got["allowed"], old.is_some(), "{member}: {}", got["status"]["message"]);
        }
        let got = reviewed(&router, ENDPOINTS[0], body("", "Pod", &pod, None)).await;
        let warnings = got["warnings"].to_string();
        let named = warnings.contains("too large")
            && got["auditAnnotations"]["not-reviewed"].as_str().is_some_and(|not| not.contains(member));
        assert!(named || got.get("patch").is_some() || got["allowed"] == false, "{member}: {got}");
    }
}

#[tokio::test]
async fn templates_with_large_environments_are_reviewed_on_update() {
    let router = routes();
    let env = |last: &str| {
        let mut all = list(60_000, |at| json!({"name": format!("A{at}")}));
        all.as_array_mut().unwrap().push(json!({"name": last}));
        all
    };
    let deployment = |last: &str, spec: Value| {
        let mut spec = spec;
        spec["containers"][0]["env"] = env(last);
        json!({"metadata": {"name": "web", "namespace": "shop"}, "spec": {"template": {"metadata": {}, "spec": spec}}})
    };
    let mut allowed = denied_spec();
    allowed["containers"][0]["securityContext"] = json!({});
    let text = body("apps", "Deployment", &deployment("x", denied_spec()), Some(&deployment("x", allowed)));
    let got = reviewed(&router, ENDPOINTS[1], text).await;
    assert_eq!(got["allowed"], false, "{got}");
}

/// A pod as some author could write it, small.
fn small_pod() -> impl Strategy<Value = Value> {
    let image = prop::sample::select(vec![WINDOWS_IMAGE, "nginx:1.27", "registry.example.com/app:1"]);
    let security = prop::sample::select(vec![json!({}), json!({"privileged": true}), json!({"runAsUser": 1000})]);
    let operator = prop::sample::select(vec!["In", "NotIn"]);
    let os = prop::sample::select(vec!["windows", "linux"]);
    (prop::collection::vec((image, security), 1..4), operator, os, any::<bool>()).prop_map(
        |(containers, operator, os, selects)| {
            let containers = containers.iter().enumerate().map(|(at, (image, security))| {
                json!({"name": format!("c{at}"), "image": image, "securityContext": security})
            });
            let mut pod = with_terms(&json!([{"matchExpressions": [{"key": "pool", "operator": "Exists"}]}]));
            pod["spec"]["containers"] = containers.collect();
            if selects {
                let expression = json!({"key": "kubernetes.io/os", "operator": operator, "values": [os]});
                let terms =
                    "/spec/affinity/nodeAffinity/requiredDuringSchedulingIgnoredDuringExecution/nodeSelectorTerms/0";
                pod.pointer_mut(terms).unwrap()["matchExpressions"].as_array_mut().unwrap().push(expression);
            }
            pod
        },
    )
}

proptest! {
    #![proptest_config(ProptestConfig { failure_persistence: None, cases: 24, ..ProptestConfig::default() })]

    /// The review of a pod is that of the same pod without the members that are skipped and without repetitions.
    #[test]
    fn what_is_skipped_changes_no_review(
        pod in small_pod(),
        depth in 0..3_000_usize,
        wide in 0..3_000_usize,
        repeats in prop::sample::select(vec![0_usize, 10, 40_000]),
        mutate in any::<bool>(),
    ) {
        let mut owners = r#"{"f:metadata":{"f:labels":"#.to_owned() + &nested(depth) + "}";
        for at in 0..wide {
            write!(owners, r#","k:{{\"name\":\"c{at}\"}}":{{".":{{}}}}"#).unwrap();
        }
        owners.push('}');
        let mut large = pod.clone();
        large["metadata"]["managedFields"] = managed_fields();
        let terms = "/spec/affinity/nodeAffinity/requiredDuringSchedulingIgnoredDuringExecution/nodeSelectorTerms/0";
        let expressions = large.pointer_mut(terms).unwrap()["matchExpressions"].as_array_mut().unwrap();
        let first = expressions[0].clone();
        expressions.splice(0..0, std::iter::repeat_n(first, repeats));
        let mut small = pod;
        small["metadata"]["managedFields"] = managed_fields();
        let endpoint = ENDPOINTS[usize::from(!mutate)];
        let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build().unwrap();
        let router = routes();
        let [small, large] = runtime.block_on(async {
            let small = reviewed(&router, endpoint, body("", "Pod", &small, None).replace(DEEP, "{}")).await;
            [small, reviewed(&router, endpoint, body("", "Pod", &large, None).replace(DEEP, &owners)).await]
        });
        prop_assert_eq!(small, large);
    }
}
