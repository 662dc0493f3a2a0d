//! The registrations with the API server, each in a namespace of its own, and the processes behind them.

use base64::Engine as _;
use base64::engine::general_purpose::STANDARD;
use mullion_cluster::{
    ControlPlane, MullionProcess, ServingCert, TestNamespace, WebhookRegistration, free_port, wait_for,
    wait_until_denied,
};
use serde_json::Value;

use crate::constant_server::ConstantServer;
use crate::creates::{self, DEADLINE};
use crate::pods;

/// A pod that is created repeatedly under one registration.
pub struct Case {
    pub name: &'static str,
    pub namespace: String,
    pub pod: Value,
    /// The node selector for the operating system that the stored pod must have.
    pub selector: Option<&'static str>,
    /// The process of the webhook, if there is one.
    pub webhook: Option<u32>,
}

impl Case {
    /// Stops the benchmark if the stored pod is not placed as expected.
    pub fn check(&self, stored: &str) {
        for selector in [pods::WINDOWS_SELECTOR, pods::LINUX_SELECTOR] {
            assert_eq!(stored.contains(selector), self.selector == Some(selector), "{}: {stored}", self.name);
        }
    }
}

/// Namespaces by what is registered for their pods, and the processes that must run while they are measured.
pub struct Registrations {
    none: TestNamespace,
    unchanged: TestNamespace,
    patched: TestNamespace,
    conditioned: TestNamespace,
    mutating_policy: TestNamespace,
    both_policies: TestNamespace,
    mullion: TestNamespace,
    constant_server: ConstantServer,
    webhook: MullionProcess,
    _certificate: ServingCert,
}

impl Registrations {
    /// Registers everything and waits until the API server uses it.
    pub async fn start(plane: &ControlPlane) -> Self {
        let namespace = async |value: &str| plane.namespace_with_labels(value, &[("benchmark", value)]).await.unwrap();
        let constant_server = ConstantServer::start();
        let text = include_str!("registrations.yaml")
            .replace("CA_BUNDLE", &STANDARD.encode(constant_server.certificate.ca_pem()))
            .replace("URL", &constant_server.url);
        plane.kubectl_with_input(&["apply", "-f", "-"], &text).await.unwrap();
        let mullion = namespace("mullion").await;
        let certificate = ServingCert::for_loopback().unwrap();
        let webhook = start_mullion(plane, &mullion, &certificate).await;
        let registrations = Self {
            none: namespace("none").await,
            unchanged: namespace("unchanged").await,
            patched: namespace("patched").await,
            conditioned: namespace("conditioned").await,
            mutating_policy: namespace("mutating-policy").await,
            both_policies: namespace("both-policies").await,
            mullion,
            constant_server,
            webhook,
            _certificate: certificate,
        };
        registrations.wait_until_used(plane).await;
        registrations
    }

    async fn wait_until_used(&self, plane: &ControlPlane) {
        wait_until_denied(&self.mullion, DEADLINE).await.unwrap();
        wait_for("the validating policy to deny", DEADLINE, async || {
            let created = creates::create(plane, &self.both_policies.name, &pods::denied(), true).await;
            created.err().filter(|error| error.to_string().contains("deny-run-as-user"))
        })
        .await
        .unwrap();
        for case in self.cases() {
            let Some(selector) = case.selector else { continue };
            wait_for(&format!("{}: a patched pod", case.name), DEADLINE, async || {
                let created = creates::create(plane, &case.namespace, &case.pod, true).await;
                created.ok().filter(|pod| pod.contains(selector))
            })
            .await
            .unwrap();
        }
        wait_for("the webhook that changes nothing to be called", DEADLINE, async || {
            creates::create(plane, &self.unchanged.name, &pods::windows(), true).await.unwrap();
            let request = http::Request::get("/metrics").body(Vec::new()).unwrap();
            let metrics = plane.client().request_text(request).await.unwrap();
            let names = ["mutate.unchanged.example.com", "validate.unchanged.example.com"];
            names.iter().all(|name| metrics.contains(&format!("name=\"{name}\""))).then_some(())
        })
        .await
        .unwrap();
    }

    /// The measured cases; [`crate::table`] compares them by their names.
    pub fn cases(&self) -> Vec<Case> {
        let (constant, mullion) = (Some(self.constant_server.process()), self.webhook.pid());
        let case = |name, namespace: &TestNamespace, pod, selector, webhook| Case {
            name,
            namespace: namespace.name.clone(),
            pod,
            selector,
            webhook,
        };
        let (windows, linux) = (Some(pods::WINDOWS_SELECTOR), Some(pods::LINUX_SELECTOR));
        vec![
            case(NONE, &self.none, pods::windows(), None, None),
            case("webhooks that change nothing", &self.unchanged, pods::windows(), None, constant),
            case(CONSTANT_PATCH, &self.patched, pods::windows(), windows, constant),
            case(CONDITIONED_PATCH, &self.conditioned, pods::windows(), windows, constant),
            case("mutating policy", &self.mutating_policy, pods::windows(), windows, None),
            case(BOTH_POLICIES, &self.both_policies, pods::windows(), windows, None),
            case(MULLION, &self.mullion, pods::windows(), windows, mullion),
            case(NONE_UNDECIDED, &self.none, pods::undecided(), None, None),
            case(UNCHANGED_UNDECIDED, &self.unchanged, pods::undecided(), None, constant),
            case(PATCH_UNDECIDED, &self.patched, pods::undecided(), windows, constant),
            case(MULLION_UNDECIDED, &self.mullion, pods::undecided(), linux, mullion),
            case(NONE_LINUX, &self.none, pods::linux(), linux, None),
            case(MULLION_LINUX, &self.mullion, pods::linux(), linux, mullion),
        ]
    }
}

pub const NONE: &str = "nothing registered";
pub const CONSTANT_PATCH: &str = "webhook with a constant patch";
const CONDITIONED_PATCH: &str = "the same with a matchCondition";
pub const BOTH_POLICIES: &str = "mutating and validating policy";
pub const MULLION: &str = "Mullion";
pub const NONE_UNDECIDED: &str = "no selector: nothing registered";
pub const UNCHANGED_UNDECIDED: &str = "no selector: webhooks that change nothing";
pub const PATCH_UNDECIDED: &str = "no selector: webhook with a constant patch";
pub const MULLION_UNDECIDED: &str = "no selector: Mullion";
pub const NONE_LINUX: &str = "explicitly Linux: nothing registered";
pub const MULLION_LINUX: &str = "explicitly Linux: Mullion";

/// Starts the built program and registers it for pods of `namespace`.
async fn start_mullion(plane: &ControlPlane, namespace: &TestNamespace, certificate: &ServingCert) -> MullionProcess {
    let (bind, admin) = (free_port().unwrap(), free_port().unwrap());
    let policies = concat!(env!("CARGO_MANIFEST_DIR"), "/policies/default.yaml");
    let folder = plane.dir().join("policies");
    std::fs::create_dir(&folder).unwrap();
    std::fs::copy(policies, folder.join("default.yaml")).unwrap();
    let webhook = MullionProcess::builder(env!("CARGO_BIN_EXE_mullion"))
        .args(["webhook", "--bind", &format!("127.0.0.1:{bind}"), "--admin-bind", &format!("127.0.0.1:{admin}")])
        .args(["--policies", &folder.to_string_lossy(), "--tls-dir", &certificate.folder().to_string_lossy()])
        .args(["--kubeconfig", &plane.kubeconfig().to_string_lossy()])
        .admin(([127, 0, 0, 1], admin).into())
        .start()
        .await
        .unwrap();
    let url = format!("https://127.0.0.1:{bind}");
    // Failing closed: a call that fails ends the benchmark.
    let registration = WebhookRegistration::new(&url, certificate.ca_pem()).only_namespace(namespace);
    registration.register(&plane.client()).await.unwrap();
    webhook
}
