//! The webhooks that the API server calls: pods, templates and updates, compared one by one with [`predicate`].

use std::collections::BTreeMap;

use anyhow::{Context as _, Result, ensure};
use futures::{StreamExt as _, TryStreamExt as _};
use http::Method;
use k8s_openapi::api::admissionregistration::v1::{MutatingWebhookConfiguration, ValidatingWebhookConfiguration};
use kube::Api;
use kube::api::{DeleteParams, PostParams};
use kube::core::Status;
use mullion_cluster::{ControlPlane, FailurePolicy, TestNamespace, WebhookRegistration, processor_time, wait_for};
use serde_json::{Value, json};

use super::{predicate, shapes};
use crate::generator;
use crate::shared::*;

/// The number of requests at a time.
const PARALLEL: usize = 12;
/// The number of mixtures of shapes.
const MIXTURES: usize = 600;
/// Only every n-th of the generator's pods, which are about rules and not about match conditions, and of the mixtures
/// is used. `make soak` uses all.
const EVERY: usize = 8;

/// Method, path, object.
type Asking = (Method, String, Value);
/// The webhook that the API server must call, and a description of the request.
type Expected<'a> = (Option<&'a str>, Value);

/// The result of a request with no server at the webhook's address and every webhook failing closed. If an expression
/// fails, the API server rejects the request with the expression's text (`Matcher.Match` in apiserver
/// pkg/admission/plugin/webhook/matchconditions/matcher.go).
#[derive(Debug, PartialEq, Eq)]
enum Seen {
    /// The server tried to call this webhook.
    Asked(String),
    /// It called no webhook.
    Passed,
    /// It rejected the request before it called a webhook.
    Early,
}

impl Seen {
    fn of(answer: &std::result::Result<Value, Box<Status>>, endpoint: Endpoint) -> Result<Self> {
        let Err(status) = answer else { return Ok(Self::Passed) };
        let called = status.message.split_once("failed calling webhook \"").and_then(|(_, rest)| rest.split_once('"'));
        if let Some((name, _)) = called {
            return Ok(Self::Asked(name.to_owned()));
        }
        let about_us = ["webhook", "xpression", "CEL", "ondition"].iter().any(|word| status.message.contains(word));
        ensure!(!about_us || status.code == 422, "{status:?}");
        // The API server's own validation comes after the mutating webhooks, and before the validating ones.
        Ok(if status.code == 422 && endpoint == Endpoint::Mutate { Self::Passed } else { Self::Early })
    }
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Endpoint {
    Mutate,
    Validate,
}

/// One of both configurations, with no server at its address: in force from here to [`Silent::end`].
struct Silent<'a> {
    namespace: &'a TestNamespace,
    endpoint: Endpoint,
}

impl<'a> Silent<'a> {
    async fn begin(
        namespace: &'a TestNamespace,
        endpoint: Endpoint,
        registration: &WebhookRegistration,
    ) -> Result<Self> {
        let (client, params) = (namespace.client.clone(), PostParams::default());
        match endpoint {
            Endpoint::Mutate => Api::<MutatingWebhookConfiguration>::all(client)
                .create(&params, &registration.mutating()?)
                .await
                .map(drop),
            Endpoint::Validate => Api::<ValidatingWebhookConfiguration>::all(client)
                .create(&params, &registration.validating()?)
                .await
                .map(drop),
        }?;
        let silent = Self { namespace, endpoint };
        silent.until("ask", |seen| matches!(seen, Seen::Asked(_))).await?;
        Ok(silent)
    }

    async fn until(&self, what: &str, wanted: impl Fn(&Seen) -> bool) -> Result<()> {
        let windows = pod("w", json!({"os": {"name": "windows"}, "containers": [{"name": "c", "image": "i"}]}));
        wait_for(&format!("the API server to {what}"), DEADLINE, async || {
            // Each API server process follows separately: several successes in a row prove that all do.
            for _ in 0..3 {
                let seen = Seen::of(&ask(self.namespace, &windows).await?, self.endpoint)?;
                ensure!(wanted(&seen), "{seen:?}");
            }
            Ok(())
        })
        .await
    }

    async fn end(self) -> Result<()> {
        let (client, params) = (self.namespace.client.clone(), DeleteParams::default());
        match self.endpoint {
            Endpoint::Mutate => {
                Api::<MutatingWebhookConfiguration>::all(client).delete("mullion", &params).await.map(drop)
            }
            Endpoint::Validate => {
                Api::<ValidatingWebhookConfiguration>::all(client).delete("mullion", &params).await.map(drop)
            }
        }?;
        self.until("call no webhook", |seen| *seen == Seen::Passed).await
    }

    /// Sends requests: method, path and object.
    async fn send(&self, requests: Vec<Asking>, parallel: usize) -> Result<Vec<Seen>> {
        self.send_as(self.namespace, requests, parallel).await
    }

    /// Does the same as the user of another client of the namespace.
    async fn send_as(&self, namespace: &TestNamespace, requests: Vec<Asking>, parallel: usize) -> Result<Vec<Seen>> {
        futures::stream::iter(requests)
            .map(|(method, path, object)| {
                let namespace = namespace.clone();
                async move { anyhow::Ok(ask_at(&namespace, method.as_str(), &path, &object).await?) }
            })
            .buffered(parallel)
            .and_then(|answer| std::future::ready(Seen::of(&answer, self.endpoint)))
            .try_collect()
            .await
    }
}

/// Compares the results with the expected ones; returns how many requests there were, by result.
fn compare(seen: Vec<Seen>, expected: Vec<Expected<'_>>) -> Result<BTreeMap<String, usize>> {
    ensure!(seen.len() == expected.len(), "{} answers to {} requests", seen.len(), expected.len());
    let (mut counts, mut wrong) = (BTreeMap::new(), Vec::new());
    for (seen, (expected, object)) in seen.into_iter().zip(expected) {
        let agreed = match &seen {
            Seen::Early => true,
            Seen::Passed => expected.is_none(),
            Seen::Asked(name) => expected == Some(name),
        };
        if !agreed {
            wrong.push(format!("{seen:?}, expected {expected:?}: {object}"));
        }
        *counts.entry(format!("{seen:?}")).or_default() += 1;
    }
    ensure!(wrong.is_empty(), "{} disagreements, as {}", wrong.len(), wrong[..wrong.len().min(4)].join("\n"));
    Ok(counts)
}

/// Evaluations of match conditions that failed: how many, by webhook.
async fn evaluation_errors(namespace: &TestNamespace) -> Result<BTreeMap<String, u64>> {
    let request = http::Request::get("/metrics").body(Vec::new())?;
    let text = namespace.client.request_text(request).await?;
    let lines = text
        .lines()
        .filter_map(|line| line.strip_prefix("apiserver_admission_match_condition_evaluation_errors_total{"));
    let counts = lines.filter_map(|line| line.rsplit_once("} "));
    counts.map(|(labels, count)| Ok((labels.to_owned(), count.parse()?))).collect()
}

pub async fn the_server_calls_for_exactly_the_expected_requests(plane: &ControlPlane) -> Result<()> {
    let namespace = plane.namespace("called").await?;
    plane.kubectl_with_input(&["apply", "-f", "-"], "apiVersion: node.k8s.io/v1\nkind: RuntimeClass\nmetadata: {name: \
        mullion-windows-ltsc2022}\nhandler: h\n---\napiVersion: node.k8s.io/v1\nkind: RuntimeClass\nmetadata: {name: other}\nhandler: h\n").await?;
    let every = if mullion_cluster::soak() { 1 } else { EVERY };
    let mut pods = shapes::pods(generator::SEED, MIXTURES / every);
    pods.extend(generator::pods(generator::SEED, 0).into_iter().step_by(every).map(|generated| generated.object));
    let stored = Stored::create(&namespace).await?;
    let unreachable = WebhookRegistration::new("https://127.0.0.1:1", "").only_namespace(&namespace);
    let before = evaluation_errors(&namespace).await?;
    let templates: Vec<Value> =
        pods.iter().enumerate().map(|(at, pod)| shapes::around(shapes::KINDS[at % shapes::KINDS.len()], pod)).collect();
    let owned = |object: &&Value| object["metadata"]["ownerReferences"].as_array().is_some_and(|all| !all.is_empty());
    let owned_pods: Vec<Value> = pods.iter().filter(owned).cloned().collect();
    let owned_templates: Vec<Value> = templates.iter().filter(owned).cloned().collect();
    let controllers = as_controllers(plane, &namespace).await?;
    let at = |object: &Value| path(&namespace, object["kind"].as_str().unwrap_or_default());
    let post =
        |objects: &[Value]| objects.iter().map(|object| (Method::POST, at(object), object.clone())).collect::<Vec<_>>();

    for endpoint in [Endpoint::Mutate, Endpoint::Validate] {
        let silent = Silent::begin(&namespace, endpoint, &unreachable).await?;
        let is_called = |pod: &Value| predicate::is_called_for_pod(pod, endpoint == Endpoint::Validate);
        let expected = pods.iter().map(|pod| (is_called(pod).then_some("pods.mullion.dev"), pod.clone()));
        let counts = compare(silent.send(post(&pods), PARALLEL).await?, expected.collect())
            .with_context(|| format!("{endpoint:?}"))?;
        eprintln!("registration: pods at {endpoint:?}: {counts:?}");
        ensure!(["Asked(\"pods.mullion.dev\")", "Passed"].iter().all(|seen| counts[*seen] > 50), "{counts:?}");

        for (user, by_controller, objects, least) in
            [(&namespace, false, &templates, 50), (&controllers, true, &owned_templates, 5)]
        {
            let expected = objects.iter().map(|object| {
                let called = predicate::is_called_for_template(object, None, by_controller);
                (called.then_some("templates.mullion.dev"), object.clone())
            });
            let counts = compare(silent.send_as(user, post(objects), PARALLEL).await?, expected.collect())
                .with_context(|| format!("{endpoint:?}, by a controller: {by_controller}"))?;
            eprintln!("registration: templates at {endpoint:?}, by a controller {by_controller}: {counts:?}");
            let both = ["Asked(\"templates.mullion.dev\")", "Passed"];
            ensure!(both.iter().all(|seen| counts[*seen] > least), "{counts:?}");
        }

        let (requests, expected) = stored.updates();
        let counts = compare(silent.send(requests, PARALLEL).await?, expected)?;
        eprintln!("registration: updates at {endpoint:?}: {counts:?}");
        ensure!(counts.values().sum::<usize>() > 60 && counts["Passed"] > 10, "{counts:?}");
        silent.end().await?;
    }

    // Under `Fail` there are two for pods, and each pod matches at most one.
    let silent =
        Silent::begin(&namespace, Endpoint::Validate, &unreachable.clone().value("admission.failurePolicy=Fail"))
            .await?;
    for (user, by_controller, objects, least) in [(&namespace, false, &pods, 50), (&controllers, true, &owned_pods, 5)]
    {
        let expected = objects.iter().map(|pod| {
            let name = if predicate::rejected_in_an_outage(pod, &namespace.name, by_controller) {
                "pods.mullion.dev"
            } else {
                "other-pods.mullion.dev"
            };
            (predicate::is_called_for_pod(pod, true).then_some(name), pod.clone())
        });
        let counts = compare(silent.send_as(user, post(objects), PARALLEL).await?, expected.collect())?;
        eprintln!("registration: pods at Validate under Fail, by a controller {by_controller}: {counts:?}");
        ensure!(counts.len() == 4 && counts.values().all(|count| *count > least), "{counts:?}");
    }
    silent.end().await?;
    let errors = evaluation_errors(&namespace).await?;
    ensure!(errors == before, "expressions failed: {errors:?}");

    // Failed evaluations are counted.
    let mut broken = unreachable.failure_policy(FailurePolicy::Ignore).validating()?;
    for webhook in broken.webhooks.iter_mut().flatten() {
        for condition in webhook.match_conditions.iter_mut().flatten() {
            "object.spec.absent == 1".clone_into(&mut condition.expression);
        }
    }
    Api::<ValidatingWebhookConfiguration>::all(plane.client()).create(&PostParams::default(), &broken).await?;
    wait_for("an expression that fails to be counted", DEADLINE, async || {
        ask(&namespace, &pods[0]).await?.ok().context("rejected")?;
        ensure!(evaluation_errors(&namespace).await? != before, "not counted");
        Ok(())
    })
    .await?;
    plane.kubectl(&["delete", "validatingwebhookconfiguration", "mullion"]).await?;
    namespace.delete().await
}

/// Objects that are older than the webhook configurations.
struct Stored {
    namespace: TestNamespace,
    templates: Vec<Value>,
    pods: Vec<Value>,
}

impl Stored {
    async fn create(namespace: &TestNamespace) -> Result<Self> {
        let linux = json!({"nodeSelector": {"kubernetes.io/os": "linux"}, "containers": [{"name": "c", "image": "i"}]});
        let windows = json!({"os": {"name": "windows"}, "containers": [{"name": "c", "image": "i"}]});
        let (mut templates, mut pods) = (Vec::new(), Vec::new());
        for (name, spec) in [("linux", linux), ("windows", windows)] {
            let mut pod = pod(name, spec);
            pods.push(create(namespace, &pod).await?);
            for noted in [false, true] {
                if noted {
                    pod["metadata"]["annotations"] = json!({"mullion.dev/decision": "{\"os\":\"linux\"}"});
                }
                for kind in shapes::KINDS {
                    let mut object = shapes::around(kind, &pod);
                    object["metadata"]["name"] = json!(format!("{name}-{noted}-{}", kind.to_lowercase()));
                    if noted {
                        object["metadata"]["annotations"] = pod["metadata"]["annotations"].clone();
                    }
                    let hollow = ["Deployment", "StatefulSet", "ReplicaSet", "ReplicationController"].contains(&kind);
                    if hollow {
                        object["spec"]["replicas"] = json!(0);
                    }
                    let mut stored = create(namespace, &object).await?;
                    // With the version, each of the controller's own writes would be a conflict.
                    stored["metadata"].as_object_mut().context("metadata")?.remove("resourceVersion");
                    templates.push(stored);
                }
            }
        }
        Ok(Self { namespace: namespace.clone(), templates, pods })
    }

    /// Updates of all of them, and the webhook that the API server must call.
    fn updates(&self) -> (Vec<Asking>, Vec<Expected<'static>>) {
        let (mut requests, mut expected) = (Vec::new(), Vec::new());
        for old in &self.templates {
            let changes: [fn(&mut Value); 4] = [
                |_| (),
                |spec| spec["containers"][0]["image"] = json!("j"),
                |spec| spec["nodeSelector"] = json!({"kubernetes.io/os": "linux"}),
                |spec| spec["nodeSelector"] = json!({"kubernetes.io/os": "windows"}),
            ];
            for (change, forgets) in changes.into_iter().flat_map(|change| [(change, false), (change, true)]) {
                let mut new = old.clone();
                new["metadata"]["labels"]["touched"] = json!("yes");
                if forgets {
                    new["metadata"]["annotations"] = Value::Null;
                }
                let kind = new["kind"].as_str().unwrap_or_default().to_owned();
                let pointer = match &*kind {
                    "PodTemplate" => "/template/spec",
                    "CronJob" => "/spec/jobTemplate/spec/template/spec",
                    _ => "/spec/template/spec",
                };
                change(new.pointer_mut(pointer).unwrap());
                let expected_webhook =
                    predicate::is_called_for_template(&new, Some(old), false).then_some("templates.mullion.dev");
                let at = format!(
                    "{}/{}",
                    path(&self.namespace, &kind),
                    old["metadata"]["name"].as_str().unwrap_or_default()
                );
                requests.push((Method::PUT, at, new.clone()));
                expected.push((expected_webhook, new));
            }
        }
        for old in &self.pods {
            for options in [json!({}), json!({"windowsOptions": {"runAsUserName": "ContainerUser"}})] {
                let mut new = old.clone();
                new["metadata"].as_object_mut().unwrap().remove("resourceVersion");
                new["spec"]["ephemeralContainers"] = json!([{"name": "e", "image": "i", "securityContext": options}]);
                let at = format!(
                    "{}/{}",
                    path(&self.namespace, "Pod"),
                    old["metadata"]["name"].as_str().unwrap_or_default()
                );
                requests.push((Method::PUT, format!("{at}/ephemeralcontainers"), new.clone()));
                expected.push((predicate::is_called_for_pod(&new, false).then_some("pods.mullion.dev"), new.clone()));
                // A change of labels causes no call.
                new["spec"] = old["spec"].clone();
                new["metadata"]["labels"] = json!({"a": "b"});
                requests.push((Method::PUT, at, new.clone()));
                expected.push((None, new));
            }
        }
        (requests, expected)
    }
}

// === cost ===

/// A list of any length in a pod costs the API server little, and no expression fails: with all webhooks failing closed, the
/// API server would reject the request with the text of the expression.
pub async fn long_lists_cost_little(plane: &ControlPlane) -> Result<()> {
    let namespace = plane.namespace("long").await?;
    let api_server = plane.api_server_pid()?;
    let pods = shapes::large();
    let mut requests = Vec::new();
    for (_, pod) in &pods {
        requests.push((Method::POST, path(&namespace, "Pod"), pod.clone()));
        requests.push((Method::POST, path(&namespace, "Deployment"), shapes::around("Deployment", pod)));
    }
    // Without a webhook.
    let before = processor_time(api_server)?;
    for (method, path, object) in &requests {
        drop(ask_at(&namespace, method.as_str(), path, object).await?);
    }
    let without = processor_time(api_server)?.saturating_sub(before);

    let unreachable = WebhookRegistration::new("https://127.0.0.1:1", "").only_namespace(&namespace);
    // With the user of these requests as a controller, so that owner references count.
    for (endpoint, values) in [
        (Endpoint::Mutate, &["admission.failurePolicy=Ignore"][..]),
        (Endpoint::Validate, &["admission.failurePolicy=Fail", "admission.controllerUsers={admin}"]),
    ] {
        let is_validating = endpoint == Endpoint::Validate;
        let registration = values.iter().fold(unreachable.clone(), |registration, value| registration.value(value));
        let silent = Silent::begin(&namespace, endpoint, &registration).await?;
        let mut expected = Vec::new();
        for (what, pod) in &pods {
            let may_fail = !is_validating || predicate::rejected_in_an_outage(pod, &namespace.name, true);
            let name = if may_fail { "pods.mullion.dev" } else { "other-pods.mullion.dev" };
            expected.push((predicate::is_called_for_pod(pod, false).then_some(name), json!(what)));
            let template = shapes::around("Deployment", pod);
            let is_called = predicate::is_called_for_template(&template, None, is_validating);
            expected.push((is_called.then_some("templates.mullion.dev"), json!(format!("template with {what}"))));
        }
        let before = processor_time(api_server)?;
        let counts = compare(silent.send(requests.clone(), 2).await?, expected)
            .with_context(|| format!("{endpoint:?} with {values:?}"))?;
        let with = processor_time(api_server)?.saturating_sub(before);
        eprintln!("registration: {with:?} for long lists at {endpoint:?}, {without:?} without webhooks: {counts:?}");
        ensure!(!counts.contains_key("Early"), "{counts:?}");
        ensure!(with < 2 * without, "{with:?} of the API server at {endpoint:?}, and {without:?} without webhooks");
        silent.end().await?;
    }
    namespace.delete().await
}
