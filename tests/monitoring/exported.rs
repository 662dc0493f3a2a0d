//! Metrics that webhook and controller export: their own registries, with every counter incremented.

use std::collections::{BTreeMap, BTreeSet};
use std::time::Duration;

use mullion::controller::{CertificateObject, metrics as controller};
use mullion::policy_files::PolicyReporter;
use mullion::registry::RegistryOutcome;
use mullion::server::{BadRequest, ConnectionClose, ReloadOutcome};
use mullion::telemetry::{UnreadableSet, WatchHealth};
use mullion::webhook::envelope::AdmissionRequest;
use mullion::webhook::metrics::{LookupOutcome, NamespaceOutcome, PolicyOutcome, RequestDecision, WebhookMetrics};
use mullion_engine::admission::{CountedOutcome, Endpoint};
use mullion_engine::model::Os;
use mullion_engine::node::TaintBlocker;
use mullion_policy::{PolicyFile, PolicyFiles, PolicyReading, PolicyStore};

use crate::promql::{Matcher, Selector};

/// Labels that Prometheus adds to every series: the target.
const OF_TARGETS: [&str; 4] = ["namespace", "pod", "instance", "job"];

/// Metrics of other programs, with the labels that are used here.
const FOREIGN: [(&str, &[&str]); 5] = [
    // kube-apiserver, apiserver/pkg/admission/metrics/metrics.go
    ("apiserver_admission_webhook_fail_open_count", &["name", "type"]),
    ("apiserver_admission_webhook_rejection_count", &["name", "type", "operation", "error_type", "rejection_code"]),
    // kube-state-metrics, docs/metrics/workload/deployment-metrics.md
    ("kube_deployment_spec_replicas", &["namespace", "deployment"]),
    ("kube_deployment_status_replicas_available", &["namespace", "deployment"]),
    // Prometheus itself
    ("ALERTS", &["alertname", "alertstate", "severity"]),
];

type Values = BTreeMap<String, BTreeSet<String>>;

/// By name of the metric: its labels, and their values so far.
pub struct Exported(BTreeMap<String, Values>);

impl Exported {
    pub fn new() -> Self {
        let mut found = BTreeMap::new();
        for text in [webhook(), controller()] {
            for line in text.lines().filter(|line| !line.starts_with('#')) {
                let (name, labels) = sample(line);
                let values: &mut Values = found.entry(name).or_default();
                for (label, value) in labels {
                    values.entry(label).or_default().insert(value);
                }
            }
        }
        Self(found)
    }

    /// The names of all metrics; a histogram has one, without the suffixes of its series.
    pub fn names(&self) -> BTreeSet<&str> {
        let histogram = |name: &str| {
            let base = ["_bucket", "_sum", "_count"].iter().find_map(|suffix| name.strip_suffix(suffix))?;
            self.0.get_key_value(&format!("{base}_bucket")).map(|_| base.len())
        };
        self.0.keys().map(|name| &name[..histogram(name).unwrap_or(name.len())]).collect()
    }

    /// Whether a metric has the name, or a histogram with one of its suffixes.
    pub fn has(&self, name: &str) -> bool {
        self.0.contains_key(name) || self.0.contains_key(&format!("{name}_bucket"))
    }

    /// The labels of the selected metric, if there is one.
    pub fn check(&self, selector: &Selector) -> Result<Vec<String>, String> {
        let of_targets = OF_TARGETS.map(str::to_owned);
        let metric = &selector.metric;
        if let Some((_, labels)) = FOREIGN.iter().find(|(name, _)| name == metric) {
            let missing = selector.matchers.iter().find(|matcher| !labels.contains(&matcher.label.as_str()));
            return match missing {
                Some(matcher) => Err(format!("{metric} has no label {}", matcher.label)),
                None => Ok(labels.iter().map(|label| (*label).to_owned()).chain(of_targets).collect()),
            };
        }
        let values = self.0.get(metric).ok_or_else(|| format!("no process exports {metric}"))?;
        for Matcher { label, operator, value } in &selector.matchers {
            let Some(values) = values.get(label) else {
                if of_targets.contains(label) {
                    continue;
                }
                return Err(format!("{metric} has no label {label}"));
            };
            // A variable of the dashboard can have any value.
            if !value.starts_with('$') && !value.split('|').all(|one| values.contains(one)) {
                return Err(format!("{metric}: {label}{operator}{value:?} is never so, only {values:?}"));
            }
        }
        Ok(values.keys().cloned().chain(of_targets).collect())
    }
}

/// `name{label="value",…} number`; no value here has a quotation mark in it.
fn sample(line: &str) -> (String, Vec<(String, String)>) {
    let Some((name, rest)) = line.split_once('{') else {
        return (line.split(' ').next().unwrap().to_owned(), Vec::new());
    };
    let (labels, _) = rest.rsplit_once("} ").unwrap_or_else(|| panic!("no end of labels: {line}"));
    let pairs = labels.split("\",").map(|pair| {
        let (label, value) = pair.split_once("=\"").unwrap_or_else(|| panic!("no label: {line}"));
        (label.to_owned(), value.trim_end_matches('"').to_owned())
    });
    (name.to_owned(), pairs.collect())
}

fn webhook() -> String {
    let metrics = WebhookMetrics::about(policies());
    let request = AdmissionRequest::parse(POD.as_bytes()).unwrap();
    for decision in RequestDecision::ALL {
        for endpoint in [Endpoint::Mutate, Endpoint::Validate] {
            metrics.reviewed(endpoint, &request, *decision, &[], Duration::from_micros(30));
        }
    }
    for effect in [
        CountedOutcome::Denied,
        CountedOutcome::Repaired,
        CountedOutcome::Labelled,
        CountedOutcome::Warned,
        CountedOutcome::WouldDeny,
        CountedOutcome::WouldRepair,
        CountedOutcome::WouldLabel,
    ] {
        metrics.count_outcomes(Some("shop"), &[("MUL201", effect)], None);
    }
    for effect in [CountedOutcome::Placed, CountedOutcome::WouldPlace] {
        metrics.count_outcomes(Some("shop"), &[], Some((Os::Windows, effect)));
    }
    let (requests, server) = (&metrics.requests, &metrics.server);
    for reason in BadRequest::ALL {
        requests.bad_requests.get_or_create(reason).inc();
    }
    for outcome in LookupOutcome::ALL {
        requests.image_lookups.get_or_create(outcome).inc();
    }
    for outcome in NamespaceOutcome::ALL {
        requests.namespace_lookups.get_or_create(outcome).inc();
    }
    for outcome in RegistryOutcome::ALL {
        requests.registry_answers.get_or_create(outcome).inc();
    }
    for outcome in PolicyOutcome::ALL {
        requests.policy_reviews.get_or_create(outcome).inc();
    }
    for reason in ConnectionClose::ALL {
        server.connections_closed.get_or_create(reason).inc();
    }
    for outcome in ReloadOutcome::ALL {
        server.tls_reload.get_or_create(outcome).inc();
        server.client_ca_reload.get_or_create(outcome).inc();
    }
    server.certificates.set("serving", Some(&(1..2)));
    metrics.encode().unwrap()
}

const POD: &str = r#"{"apiVersion": "admission.k8s.io/v1", "kind": "AdmissionReview", "request": {"uid": "u",
    "kind": {"group": "", "version": "v1", "kind": "Pod"}, "namespace": "shop", "name": "web-0", "operation": "CREATE"}}"#;

fn controller() -> String {
    use controller::WriteOutcome;
    let metrics = controller::ControllerMetrics::about(&policies());
    let _watch = WatchHealth::of("nodes");
    let _unreadable = UnreadableSet::of("Pod");
    metrics.set_leading(true);
    for outcome in [WriteOutcome::Done, WriteOutcome::Conflict, WriteOutcome::Gone, WriteOutcome::Failed] {
        metrics.node_patched(outcome);
        metrics.class_written(outcome);
        metrics.pod_patched(outcome);
        metrics.state_written(outcome);
    }
    for object in [CertificateObject::Ca, CertificateObject::Serving, CertificateObject::Bundle] {
        metrics.certificate_written(object, WriteOutcome::Done);
        metrics.certificate_written(object, WriteOutcome::Failed);
    }
    metrics.certificates_valid(Some(&(1..2)), Some(&(1..2)));
    metrics.set_taint_blockers("{key: os}", &[(TaintBlocker::DaemonSet("shop/agent".to_owned()), 1)]);
    metrics.set_left_out(&[("shop/agent".to_owned(), 1)]);
    metrics.set_stuck_pods(Some([(Os::Linux, 1), (Os::Windows, 1)]));
    metrics.endpoint_reached(Endpoint::Mutate, 1);
    metrics.endpoint_reached(Endpoint::Validate, 1);
    metrics.probed("reached");
    metrics.encode().unwrap()
}

/// The report of one good file, with an exemption.
fn policies() -> PolicyReporter {
    let reporter = PolicyReporter::default();
    let bytes =
        b"apiVersion: mullion.dev/v1alpha1\nkind: PodPolicy\nmetadata: {name: a}\nspec: {until: 2027-03-31}\n".to_vec();
    let mut store = PolicyStore::default();
    let files =
        PolicyFiles { texts: vec![PolicyFile { name: "/etc/mullion/a.yaml".to_owned(), bytes }], problems: Vec::new() };
    let reading = store.reload(&files, 0);
    assert!(matches!(reading, PolicyReading::Loaded(_)));
    reporter.set_directories(vec!["/etc/mullion".to_owned()], Vec::new());
    reporter.record(&reading, 1);
    reporter
}
