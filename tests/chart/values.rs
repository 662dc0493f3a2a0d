//! Invalid values, with Helm's messages, and valid ones.

use std::path::Path;

use anyhow::{Result, bail, ensure};
use mullion_cluster::{Chart, helm};
use serde_json::Value;

use crate::rendered::{program_output, read};

/// Invalid values, and texts in Helm's message: the value's path, and what is expected.
const WRONG: &[(&str, &[&str])] = &[
    // Misspelled keys, at every depth.
    ("webhok.replicas=3", &["additional properties 'webhok' not allowed"]),
    ("webhook.replica=3", &["at '/webhook'", "additional properties 'replica' not allowed"]),
    ("controller.hostNetwork=true", &["at '/controller'", "'hostNetwork' not allowed"]),
    ("admission.timeoutSeconds.mutate=1", &["at '/admission/timeoutSeconds'", "'mutate' not allowed"]),
    ("admission.failurepolicy=Fail", &["at '/admission'", "'failurepolicy' not allowed"]),
    ("certificates.certManager.issuer=x", &["at '/certificates/certManager'", "'issuer' not allowed"]),
    ("monitoring.serviceMonitor.enable=true", &["at '/monitoring/serviceMonitor'", "'enable' not allowed"]),
    ("certificates.provided.tls=x", &["at '/certificates/provided'", "'tls' not allowed"]),
    ("webhook.podDisruptionBudget.minAvailable=1", &["'minAvailable' not allowed"]),
    // Out of range.
    ("admission.timeoutSeconds.mutating=6", &["at '/admission/timeoutSeconds/mutating'", "got 6, want 5"]),
    ("admission.timeoutSeconds.validating=0", &["at '/admission/timeoutSeconds/validating'", "got 0, want 1"]),
    ("webhook.port=70000", &["at '/webhook/port'", "want 65,535"]),
    ("webhook.adminPort=0", &["at '/webhook/adminPort'", "got 0, want 1"]),
    ("webhook.replicas=0", &["at '/webhook/replicas'", "got 0, want 1"]),
    ("controller.replicas=-1", &["at '/controller/replicas'", "want 1"]),
    ("runAsUser=0", &["at '/runAsUser'", "got 0, want 1"]),
    ("priorityClass.value=900000", &["at '/priorityClass'", "'value' not allowed"]),
    ("priorityClass.create=true", &["at '/priorityClass/create'", "value must be false"]),
    ("fence.taintKeys={os=windows}", &["at '/fence/taintKeys/0'", "does not match pattern"]),
    ("fence.tolerationEffects={Always}", &["at '/fence/tolerationEffects/0'", "'NoSchedule', 'NoExecute'"]),
    ("withdraw.deadlineSeconds=10", &["at '/withdraw/deadlineSeconds'", "got 10, want 30"]),
    ("webhook.drainSeconds=-1", &["at '/webhook/drainSeconds'", "want 0"]),
    ("networkPolicy.apiServerPorts={65536}", &["at '/networkPolicy/apiServerPorts/0'", "want 65,535"]),
    // Unknown words.
    ("admission.failurePolicy=fail", &["at '/admission/failurePolicy'", "'Ignore', 'Fail'"]),
    ("certificates.mode=managed", &["at '/certificates/mode'", "'Managed', 'CertManager', 'Provided'"]),
    ("repair.mode=Evict", &["at '/repair/mode'", "'Disabled', 'Report'"]),
    ("policies.shipped=Default", &["at '/policies/shipped'", "'default', 'compatible', 'strict', 'audit'"]),
    ("webhook.log=warning", &["at '/webhook/log'", "'error', 'warn', 'info', 'debug', 'trace'"]),
    ("image.pullPolicy=always", &["at '/image/pullPolicy'", "'Always', 'IfNotPresent', 'Never'"]),
    // Values of the wrong type.
    ("webhook.hostNetwork=yes", &["at '/webhook/hostNetwork'", "got string, want boolean"]),
    ("webhook.replicas=two", &["at '/webhook/replicas'", "got string, want integer"]),
    ("webhook.replicas=1.5", &["at '/webhook/replicas'", "want integer"]),
    ("admission.pods=1", &["at '/admission/pods'", "got number, want boolean"]),
    ("admission.excludedNamespaces=dev", &["at '/admission/excludedNamespaces'", "got string, want array"]),
    ("webhook.tolerations.key=os", &["at '/webhook/tolerations'", "got object, want array"]),
    ("image.pullSecrets={registry}", &["at '/image/pullSecrets/0'", "got string, want object"]),
    ("admission.labels.a=true", &["at '/admission/labels/a'", "got boolean, want string"]),
    ("webhook=null,controller=2", &["at '/controller'", "got number, want object"]),
    // Names and forms.
    ("admission.excludedNamespaces={dev-*}", &["at '/admission/excludedNamespaces/0'", "does not match pattern"]),
    ("admission.excludedNamespaces={a,a}", &["at '/admission/excludedNamespaces'", "items at 0 and 1 are equal"]),
    ("admission.controllerUsers=jane", &["at '/admission/controllerUsers'", "got string, want array"]),
    (
        "admission.controllerUsers={'] || true || '' in ['}",
        &["at '/admission/controllerUsers/0'", "does not match pattern"],
    ),
    ("controller.probeNamespace=Default", &["at '/controller/probeNamespace'", "does not match pattern"]),
    ("policies.configMap=my_policies", &["at '/policies/configMap'", "does not match pattern"]),
    ("image.digest=sha256:0123", &["at '/image/digest'", "does not match pattern"]),
    ("image.tag=1.0@sha256:0123", &["at '/image/tag'", "does not match pattern"]),
    ("bindAddress=localhost", &["at '/bindAddress'", "does not match pattern"]),
    ("webhook.extraArgs={webhook}", &["at '/webhook/extraArgs/0'", "does not match pattern"]),
    ("webhook.resources.limits.cpu=1", &["at '/webhook/resources/limits/cpu'", "false schema"]),
    (
        "webhook.extraVolumeMounts[0].name=a,webhook.extraVolumeMounts[0].mountPath=/a,webhook.extraVolumeMounts[0].subPath=b",
        &["at '/webhook/extraVolumeMounts/0/subPath'", "false schema"],
    ),
    ("webhook.podDisruptionBudget.maxUnavailable=0", &["at '/webhook/podDisruptionBudget/maxUnavailable'", "want 1"]),
    ("certificates.certManager.duration=90d", &["at '/certificates/certManager/duration'", "does not match pattern"]),
    ("monitoring.serviceMonitor.interval=30", &["at '/monitoring/serviceMonitor/interval'", "want string"]),
    // Rules that a schema cannot express.
    ("policies.shipped=strict,policies.configMap=mine", &["policies.shipped and policies.configMap", "only one"]),
    ("policies.shipped=,policies.files.readme=x", &["policies.files", "no name of a policy file"]),
    ("controller.probeNamespace=mullion-system", &["controller.probeNamespace is Mullion's own namespace"]),
    (
        "admission.excludedNamespaces={default}",
        &["controller.probeNamespace default is one of admission.excludedNamespaces"],
    ),
    ("certificates.mode=Provided", &["certificates.provided.secretName"]),
    ("certificates.mode=Provided,certificates.provided.secretName=mine", &["certificates.provided.caBundle"]),
    (
        "certificates.mode=Provided,certificates.provided.secretName=mine,certificates.provided.caBundle=LS0t",
        &["not PEM"],
    ),
    ("certificates.provided.secretName=mine", &["certificates.mode is Managed", "certificates.mode=Provided"]),
    ("webhook.adminPort=9443", &["webhook.port and webhook.adminPort are both 9443"]),
    (
        "webhook.hostNetwork=true,monitoring.serviceMonitor.enabled=true",
        &["monitoring.serviceMonitor.enabled is true", "127.0.0.1 of its node only", "kubectl port-forward"],
    ),
    (
        "webhook.clientCA.configMap=a,webhook.clientCA.secretName=b",
        &["webhook.clientCA.configMap and webhook.clientCA.secretName are both given"],
    ),
    ("webhook.clientCA.key=..", &["at '/webhook/clientCA/key'", "does not match pattern"]),
    ("networkPolicy.apiServerFrom={10.0.0.0/8}", &["at '/networkPolicy/apiServerFrom/0'", "got string, want object"]),
    (
        "image.repository=",
        &[
            "image.repository is empty",
            "\n    --set image.repository=registry.example.com/mullion\n",
            "image: {repository: ",
        ],
    ),
    (
        "policies.shipped=",
        &[
            "policies is empty",
            "\n    --set policies.shipped=audit ",
            "\n    --set policies.shipped=default ",
            "policies: {shipped: audit}",
        ],
    ),
    ("image.repository=,policies.shipped=", &["image.repository is empty", "policies is empty"]),
    (
        "admission.skipSettledLinux=false",
        &["admission.skipSettledLinux is the name in earlier charts", "set admission.skipExplicitlyLinux"],
    ),
    ("webhook.hostNetwork=true,webhook.port=443", &["only root opens ports below 1024"]),
    ("webhook.hostNetwork=true,webhook.port=10250", &["which the kubelet"]),
];

pub fn wrong_values_are_rejected_with_a_message() -> Result<()> {
    let mut wrong = Vec::new();
    for (value, words) in WRONG {
        match Chart::default().value(value).text() {
            Ok(_) => wrong.push(format!("{value} is taken")),
            Err(message) => {
                let message = format!("{message:#}");
                let missing: Vec<_> = words.iter().filter(|words| !message.contains(*words)).collect();
                if !missing.is_empty() {
                    wrong.push(format!("{value}: {missing:?} is not in:\n{message}"));
                }
            }
        }
    }
    // The webhook would review no pod there.
    for namespace in ["default", "kube-system"] {
        match Chart::default().namespace(namespace).text() {
            Err(message) if message.to_string().contains("--namespace mullion-system") => {}
            other => wrong.push(format!("{namespace}: {other:?}")),
        }
    }
    ensure!(wrong.is_empty(), "{}", wrong.join("\n\n"));
    Ok(())
}

/// The program `helm` answers the same, byte for byte, as the process that the other trials ask: renders the same, and
/// rejects with the same message each kind of error that Helm knows. The trials `same` compare every values file.
pub fn answers_are_those_of_the_helm_program() -> Result<()> {
    let flag = |flag: &str, value: &str| Chart::default().argument(flag).argument(value);
    let charts = [
        (Chart::default(), true),
        (Chart::default().namespace("elsewhere"), true),
        (Chart::default().argument("--no-hooks"), true),
        (flag("--kube-version", "v1.30.5+k3s1"), true),
        (flag("--api-versions", "helm.toolkit.fluxcd.io/v2,admissionregistration.k8s.io/v1/Other"), true),
        (flag("--show-only", "templates/webhook/deployment.yaml"), true),
        // The schema: Helm prints several errors in any order.
        (Chart::default().value("webhook.port=70000"), false),
        (Chart::default().value("webhok.replicas=3"), false),
        // `fail` in a template: values that contradict each other, a missing value, and the namespace.
        (Chart::default().value("webhook.adminPort=9443"), false),
        (Chart::default().value("webhook.port=null"), false),
        (Chart::default().namespace("default"), false),
        // kubeVersion of the chart, and of the command line.
        (flag("--kube-version", "1.29.15"), false),
        (flag("--kube-version", "new"), false),
        // The command line itself.
        (Chart::default().value("webhook=x").value("webhook.port=3"), false),
        (Chart::default().values(Path::new("/no/such/values.yaml")), false),
        (flag("--show-only", "templates/missing.yaml"), false),
        (Chart::default().argument("--unknown"), false),
    ];
    for (chart, accepted) in charts {
        let (ours, program) = (helm(&chart.command())?, program_output(&chart)?);
        ensure!(program.succeeded == accepted, "{chart:?}: {program:?}");
        ensure!(ours == program, "{chart:?}:\n{ours:?}\nand not, as the program helm prints,\n{program:?}");
    }
    Ok(())
}

/// Values at their bounds, in the forms in which people write them, and what Helm itself adds to a subchart.
pub fn valid_values_are_accepted() -> Result<()> {
    let right = [
        "admission.timeoutSeconds.mutating=5,admission.timeoutSeconds.validating=1",
        "webhook.port=65535,webhook.adminPort=1",
        "webhook.resources.requests.cpu=1",
        "webhook.resources.limits.memory=1.5Gi",
        "webhook.podDisruptionBudget.maxUnavailable=50%",
        "priorityClass.name=,priorityClass.create=false",
        "certificates.mode=CertManager,certificates.certManager.renewBefore=1h30m",
        "rbac.pullSecrets={*}",
        "bindAddress=::",
        "global.imageRegistry=x",
        "enabled=true",
        "policies.shipped=,policies.files.a\\.yaml=x",
        "image.repository=localhost:5000/mullion",
        "runAsUser=null",
        "webhook.clientCA.secretName=authorities,webhook.clientCA.key=tls.crt",
        "webhook.clientCA=null",
        "networkPolicy.enabled=true,networkPolicy.apiServerFrom[0].ipBlock.cidr=10.0.0.0/8",
    ];
    for value in right {
        if let Err(message) = Chart::default().value(value).text() {
            bail!("{value}: {message:#}");
        }
    }
    Ok(())
}

/// Values that `null` may remove, alone or with everything below: then Kubernetes sets a default, or there is none.
const TAKEN_AWAY: &[&str] = &[
    "runAsUser",
    "priorityClass.create",
    "webhook.resources",
    "webhook.tolerations",
    "controller.resources",
    "controller.tolerations",
    "admission.labels",
    "networkPolicy.adminFrom",
    "networkPolicy.apiServerPorts",
    "monitoring.serviceMonitor.interval",
    "monitoring.dashboard.labels",
];

/// Each value is removed, alone or with its parent, as in an upgrade with the values of an older release
/// (`--reuse-values`). The rendered objects are the same, or Helm's message contains the missing value and how to set
/// it.
pub fn missing_values_are_named() -> Result<()> {
    let optional = ["networkPolicy", "monitoring.serviceMonitor", "monitoring.prometheusRule", "monitoring.dashboard"];
    let chart = || optional.iter().fold(Chart::default(), |chart, key| chart.value(&format!("{key}.enabled=true")));
    let (whole, mut paths, mut wrong) = (chart().text()?, Vec::new(), Vec::new());
    below("", &read(&Chart::folder().join("values.yaml"))?, &mut paths);
    ensure!(paths.len() > 80, "{paths:?}");
    for path in &paths {
        let may_go = TAKEN_AWAY
            .iter()
            .any(|key| path.strip_prefix(key).is_some_and(|rest| rest.is_empty() || rest.starts_with('.')));
        match chart().value(&format!("{path}=null")).text() {
            Ok(text) if may_go || text == whole => {}
            Ok(_) => wrong.push(format!("without {path} other objects are rendered without a message")),
            Err(message) => {
                let message = format!("{message:#}");
                // One of the ways to set policies is required, not this one.
                let asked = path == "policies.shipped" && message.contains("policies is empty");
                if may_go
                    || !asked && !message.contains(&format!("no value for {path}"))
                    || !asked && !message.contains("--reset-then-reuse-values")
                {
                    wrong.push(format!("without {path}: {message}"));
                }
            }
        }
    }
    ensure!(wrong.is_empty(), "{}", wrong.join("\n\n"));
    Ok(())
}

/// The paths of everything in `values`, in the format of `--set`.
fn below(at: &str, values: &Value, paths: &mut Vec<String>) {
    for (key, value) in values.as_object().into_iter().flatten() {
        let key = key.replace('.', "\\.");
        let path = if at.is_empty() { key } else { format!("{at}.{key}") };
        below(&path, value, paths);
        paths.push(path);
    }
}

pub fn old_servers_are_rejected() -> Result<()> {
    let rendered = |version: &str| Chart::default().argument("--kube-version").argument(version).text();
    for old in ["1.29.0", "1.29.15", "1.27.3"] {
        let Err(message) = rendered(old) else { bail!("{old} is accepted") };
        ensure!(message.to_string().contains("chart requires kubeVersion: >=1.30.0-0"), "{old}: {message:#}");
    }
    // Providers add suffixes to the version.
    for new in
        ["1.30.0", "v1.30.0-eks-036c24b", "v1.30.4-gke.100", "v1.30.5+k3s1", "v1.33.0+rke2r1", "v1.31.0-rc.1", "1.36.3"]
    {
        rendered(new)?;
    }
    Ok(())
}
