//! Sidecar injectors: which webhook added a container, and how a pod opts out of it.
//!
//! The author of a Windows pod did not write the Linux sidecar in it, so "use another image" does not help; the
//! injector's own opt-out does. A wrong name would send people to a mesh that they do not run, so a row identifies a
//! container only by names and images that only the injector uses. Containers that people also add by hand under the
//! same names have no row: `jaeger-agent`, Conjur's `secrets-provider-for-k8s`.

use std::fmt;

use InjectionOptOut::{Namespace, Pod, Setting};
use Mark::{Annotation, Label, NoAnnotation, NoLabel, NodeSelector};
use Sign::{Image, Name, NameWithImage, Prefix, PrefixWithImage};

use crate::model::image::ImageRef;

/// A webhook or operator that adds containers to pods of others.
#[derive(Debug, PartialEq, Eq)]
pub struct Injector {
    /// Its name for people; one product may have several rows, each with its own opt-out.
    pub name: &'static str,
    /// The operating systems of its containers.
    pub systems: Systems,
    /// Each of them is enough; the best first, never empty.
    pub(crate) opt_outs: &'static [InjectionOptOut],
    /// Each of them is enough.
    signs: &'static [Sign],
}

/// Operating systems that an injector's images exist for, under any tag.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Systems {
    /// Linux only: the container starts on no Windows node.
    Linux,
    /// Windows too: the container by itself is not a problem.
    LinuxAndWindows,
}

/// What prevents the injector from changing a pod. Displayed as a clause: `label sidecar.istio.io/inject: "false"`.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum InjectionOptOut {
    /// A mark on the pod, or in the pod template of its workload.
    Pod(Mark),
    /// A mark on the namespace, for all its pods.
    Namespace(Mark),
    /// The pod cannot opt out: a setting of the injector.
    Setting(&'static str),
}

/// A mark in the metadata of an object, with key and value, or in its spec.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Mark {
    /// This label.
    Label(&'static str, &'static str),
    /// This annotation.
    Annotation(&'static str, &'static str),
    /// The label of this key must be removed, because the injector requires it.
    NoLabel(&'static str),
    /// The annotation of this key must be removed, because the injector requires it.
    NoAnnotation(&'static str),
    /// This pair in `nodeSelector`.
    NodeSelector(&'static str, &'static str),
}

/// How to recognize an injector's container. Images are the last components of the repository's path, whatever the
/// registry: private mirrors put more before them.
#[derive(Debug, PartialEq, Eq)]
enum Sign {
    /// This container name.
    Name(&'static str),
    /// A longer container name with this prefix.
    Prefix(&'static str),
    /// This image.
    Image(&'static str),
    /// This container name with this image. Either alone is also used by hand, or is that of the injector's own server.
    NameWithImage(&'static str, &'static str),
    /// A longer container name with this prefix, with this image.
    PrefixWithImage(&'static str, &'static str),
}

const fn linux(name: &'static str, opt_outs: &'static [InjectionOptOut], signs: &'static [Sign]) -> Injector {
    Injector { name, systems: Systems::Linux, opt_outs, signs }
}

const fn both(name: &'static str, opt_outs: &'static [InjectionOptOut], signs: &'static [Sign]) -> Injector {
    Injector { name, systems: Systems::LinuxAndWindows, opt_outs, signs }
}

/// The injector that adds such a container; `image` as written. A text that is not a reference identifies no injector.
pub fn injector_of(container_name: &str, image: &str) -> Option<&'static Injector> {
    let image = ImageRef::parse(image).ok();
    INJECTORS.iter().find(|injector| injector.signs.iter().any(|sign| sign.is_on(container_name, image.as_ref())))
}

impl Sign {
    fn is_on(&self, container: &str, image: Option<&ImageRef<'_>>) -> bool {
        let is_image = |components: &str| image.is_some_and(|image| image.ends_with(components));
        let goes_on = |start: &str| container.strip_prefix(start).is_some_and(|rest| !rest.is_empty());
        match *self {
            Self::Name(name) => container == name,
            Self::Prefix(start) => goes_on(start),
            Self::Image(components) => is_image(components),
            Self::NameWithImage(name, components) => container == name && is_image(components),
            Self::PrefixWithImage(start, components) => goes_on(start) && is_image(components),
        }
    }
}

impl fmt::Display for InjectionOptOut {
    fn fmt(&self, out: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Pod(mark) => write!(out, "{mark}"),
            Self::Namespace(mark) => write!(out, "{mark} on the namespace"),
            Self::Setting(text) => out.write_str(text),
        }
    }
}

impl fmt::Display for Mark {
    fn fmt(&self, out: &mut fmt::Formatter<'_>) -> fmt::Result {
        // Quoted, because YAML parses an unquoted false as a boolean, which the API server rejects in labels and
        // annotations.
        match self {
            Self::Label(key, value) => write!(out, "label {key}: \"{value}\""),
            Self::Annotation(key, value) => write!(out, "annotation {key}: \"{value}\""),
            Self::NoLabel(key) => write!(out, "no label {key}"),
            Self::NoAnnotation(key) => write!(out, "no annotation {key}"),
            Self::NodeSelector(key, value) => write!(out, "nodeSelector {key}: \"{value}\" in the pod template"),
        }
    }
}

/// The first match wins. The comment above each row contains the sources of its facts, and why it is identified by
/// these signs.
#[rustfmt::skip]
static INJECTORS: &[Injector] = &[
    // Service meshes.

    // istio/istio manifests/charts/istio-control/istio-discovery/files/injection-template.yaml (names), templates/mutatingwebhook.yaml
    // (labels), values.yaml (proxyv2), prow/release-commit.sh (linux/amd64, linux/arm64). The label is the newer form; an annotation of the
    // same key and value is still read: pkg/kube/inject/inject.go injectRequired. Google's build is asm/proxyv2, Red Hat's istio-proxyv2-rhel9.
    linux("Istio", &[
        Pod(Label("sidecar.istio.io/inject", "false")),
        Namespace(Label("istio-injection", "disabled")),
    ], &[
        Name("istio-proxy"), Name("istio-init"), Name("istio-validation"),
        Image("istio/proxyv2"), Image("asm/proxyv2"), Image("openshift-service-mesh/istio-proxyv2-rhel9"),
    ]),
    // linkerd/linkerd2 pkg/k8s/labels.go, charts/partials/templates/ (names), pkg/inject/report.go (annotation),
    // charts/linkerd-control-plane/values.yaml (images), bin/_docker.sh SUPPORTED_ARCHS (linux/amd64, linux/arm64).
    linux("Linkerd", &[
        Pod(Annotation("linkerd.io/inject", "disabled")),
        Namespace(Annotation("linkerd.io/inject", "disabled")),
    ], &[
        Name("linkerd-proxy"), Name("linkerd-init"), Name("linkerd-network-validator"), Name("linkerd-debug"),
        Image("linkerd/proxy"), Image("linkerd/debug"),
    ]),
    // hashicorp/consul-k8s control-plane/connect-inject/webhook/mesh_webhook.go shouldInject, container_init.go; several services in one pod
    // add the service's name. control-plane/Dockerfile and hashicorp/consul-dataplane Dockerfile: Alpine, Debian and UBI only.
    linux("Consul", &[Pod(Annotation("consul.hashicorp.com/connect-inject", "false"))], &[
        Name("consul-dataplane"), Name("consul-connect-inject-init"), Prefix("consul-connect-inject-init-"),
        Image("consul-dataplane"),
    ]),
    // kumahq/kuma pkg/plugins/runtime/k8s/util/names.go, webhooks/injector/precheck.go needToInject (labels, not annotations),
    // deployments/charts/kuma/values.yaml (images), mk/docker.mk (--platform=linux/).
    linux("Kuma", &[
        Pod(Label("kuma.io/sidecar-injection", "disabled")),
        Namespace(Label("kuma.io/sidecar-injection", "disabled")),
    ], &[
        Name("kuma-sidecar"), Name("kuma-init"), Name("kuma-validation"), Image("kuma-dp"), Image("kuma-init"),
    ]),
    // aws/aws-app-mesh-controller-for-k8s docs/reference/injector.md, pkg/inject/config.go (images),
    // pkg/inject/envoy_test.go (its probes run sh). Identified by image, because the container is named envoy, as are
    // others. aws-xray-daemon is also added by hand.
    linux("AWS App Mesh", &[
        Pod(Annotation("appmesh.k8s.aws/sidecarInjectorWebhook", "disabled")),
        Namespace(Label("appmesh.k8s.aws/sidecarInjectorWebhook", "disabled")),
    ], &[Image("aws-appmesh-envoy"), Image("aws-appmesh-proxy-route-manager")]),
    // openservicemesh/osm pkg/constants/constants.go, pkg/injector/webhook.go mustInject. The init container sets up
    // iptables and is left out of pods whose nodeSelector selects Windows, which get Envoy's Windows image:
    // pkg/injector/patch.go configurePodInit. Other products use Envoy too.
    linux("Open Service Mesh", &[
        Pod(NodeSelector("kubernetes.io/os", "windows")),
        Pod(Annotation("openservicemesh.io/sidecar-injection", "disabled")),
        Namespace(Annotation("openservicemesh.io/sidecar-injection", "disabled")),
    ], &[Name("osm-init")]),
    // nginxinc/nginx-service-mesh docs/content/guides/inject-sidecar-proxy.md, get-started/install/configuration.md (labels),
    // about/tech-specs.md (images; the init container sets up iptables).
    linux("NGINX Service Mesh", &[
        Pod(Label("injector.nsm.nginx.com/auto-inject", "disabled")),
        Namespace(Label("injector.nsm.nginx.com/auto-inject", "disabled")),
    ], &[
        Name("nginx-mesh-sidecar"), Name("nginx-mesh-init"), Image("nginx-mesh-sidecar"), Image("nginx-mesh-init"),
    ]),
    // dapr/dapr pkg/injector/consts/consts.go, pkg/injector/service/handler.go podHasDaprEnabled, docker/docker.mk DOCKER_MULTI_ARCH
    // (windows-1809-amd64, windows-ltsc2022-amd64); dapr/docs operations/hosting/kubernetes/kubernetes-hybrid-clusters.md.
    both("Dapr", &[Pod(Annotation("dapr.io/enabled", "false"))], &[Name("daprd"), Image("daprd")]),

    // Secrets and certificates.

    // hashicorp/vault-k8s agent-inject/agent/container_sidecar.go, container_init_sidecar.go (names; both run /bin/sh),
    // agent.go ShouldInject. The image is that of Vault itself, including the server. Bank-Vaults adds a vault-agent
    // too, beside its own containers below.
    linux("HashiCorp Vault Agent injector", &[Pod(Annotation("vault.hashicorp.com/agent-inject", "false"))], &[
        Name("vault-agent-init"),
        NameWithImage("vault-agent", "hashicorp/vault"),
    ]),
    // bank-vaults/vault-secrets-webhook pkg/webhook/pod.go (copy-vault-env runs sh), pkg/webhook/config.go parseVaultConfig,
    // .github/workflows/artifacts.yaml (linux/amd64, linux/arm64, linux/arm/v7).
    linux("Bank-Vaults", &[Pod(Annotation("vault.security.banzaicloud.io/mutate", "skip"))], &[
        Name("copy-vault-env"), Image("bank-vaults/vault-env"),
    ]),
    // 1Password/kubernetes-secrets-injector pkg/webhook/webhook.go (name, image, annotation; it runs sh), pkg/webhook/k8s_client.go (label).
    linux("1Password secrets injector", &[
        Pod(NoAnnotation("operator.1password.io/inject")),
        Namespace(NoLabel("secrets-injection")),
    ], &[NameWithImage("copy-op-bin", "1password/op")]),
    // Azure/azure-workload-identity pkg/webhook/consts.go, pkg/webhook/webhook.go shouldInjectProxySidecar (any value requests it),
    // Makefile (--platform=linux/).
    linux("Azure Workload Identity proxy", &[Pod(NoAnnotation("azure.workload.identity/inject-proxy-sidecar"))], &[
        Name("azwi-proxy"), Name("azwi-proxy-init"),
        Image("azure/workload-identity/proxy"), Image("azure/workload-identity/proxy-init"),
    ]),
    // vmware-tanzu/cert-injection-webhook pkg/certinjectionwebhook/admission_controller.go: it skips pods whose
    // nodeSelector selects Windows; the labels and annotations that request it are chosen at installation.
    // config/images.yaml (image).
    linux("Cert Injection Webhook", &[Pod(NodeSelector("kubernetes.io/os", "windows"))], &[
        NameWithImage("setup-ca-certs", "setup-ca-certs"),
    ]),

    // Observability.

    // DataDog/datadog-agent pkg/clusteragent/admission/mutate/autoinstrumentation/libraryinjection/init_container.go (names; they run /bin/sh),
    // pkg/clusteragent/admission/mutate/common/label_selectors.go.
    linux("Datadog library injection", &[Pod(Label("admission.datadoghq.com/enabled", "false"))], &[
        Name("datadog-init-apm-inject"), Prefix("datadog-lib-"),
    ]),
    // DataDog/datadog-agent pkg/clusteragent/admission/mutate/agent_sidecar/constants.go, agent_sidecar.go labelSelectors;
    // DataDog/helm-charts charts/datadog/README.md: the Agent's image exists for Windows.
    both("Datadog Agent sidecar", &[Pod(NoLabel("agent.datadoghq.com/sidecar"))], &[Name("datadog-agent-injected")]),
    // open-telemetry/opentelemetry-operator pkg/sidecar/annotation.go, internal/naming/main.go;
    // open-telemetry/opentelemetry-collector-releases distributions/otelcol/.goreleaser.yaml: Windows has tags of its
    // own. Standalone collectors use the same image.
    both("OpenTelemetry Operator collector sidecar", &[
        Pod(Annotation("sidecar.opentelemetry.io/inject", "false")),
        Namespace(Annotation("sidecar.opentelemetry.io/inject", "false")),
    ], &[Name("otc-container")]),
    // For all languages: open-telemetry/opentelemetry-operator internal/instrumentation/annotation.go and, per language, javaagent.go, nodejs.go,
    // python.go, dotnet.go, golang.go, nginx.go, apachehttpd.go (names); .github/workflows/publish-autoinstrumentation-*.yaml (linux/ platforms);
    // internal/config/config.go (images). Go's is eBPF, which mounts /sys/kernel/debug. Nginx comes before Apache httpd, whose image it shares.
    linux("OpenTelemetry Operator (Java)", &[
        Pod(Annotation("instrumentation.opentelemetry.io/inject-java", "false")),
    ], &[Name("opentelemetry-auto-instrumentation-java"), Image("autoinstrumentation-java")]),
    linux("OpenTelemetry Operator (Node.js)", &[
        Pod(Annotation("instrumentation.opentelemetry.io/inject-nodejs", "false")),
    ], &[Name("opentelemetry-auto-instrumentation-nodejs"), Image("autoinstrumentation-nodejs")]),
    linux("OpenTelemetry Operator (Python)", &[
        Pod(Annotation("instrumentation.opentelemetry.io/inject-python", "false")),
    ], &[Name("opentelemetry-auto-instrumentation-python"), Image("autoinstrumentation-python")]),
    linux("OpenTelemetry Operator (.NET)", &[
        Pod(Annotation("instrumentation.opentelemetry.io/inject-dotnet", "false")),
    ], &[Name("opentelemetry-auto-instrumentation-dotnet"), Image("autoinstrumentation-dotnet")]),
    linux("OpenTelemetry Operator (Go)", &[
        Pod(Annotation("instrumentation.opentelemetry.io/inject-go", "false")),
    ], &[Image("autoinstrumentation-go")]),
    linux("OpenTelemetry Operator (nginx)", &[
        Pod(Annotation("instrumentation.opentelemetry.io/inject-nginx", "false")),
    ], &[Name("otel-agent-attach-nginx")]),
    linux("OpenTelemetry Operator (Apache httpd)", &[
        Pod(Annotation("instrumentation.opentelemetry.io/inject-apache-httpd", "false")),
    ], &[Name("otel-agent-attach-apache"), Image("autoinstrumentation-apache-httpd")]),
    // newrelic/k8s-agents-operator internal/apm/dotnet.go, dotnetwindows.go (one name for both systems),
    // charts/k8s-agents-operator/README.md (images; a podLabelSelector chooses the pods, and no mark on a pod opts
    // out).
    both("New Relic agent operator (.NET)", &[Setting(NEW_RELIC)], &[
        Prefix("nri-dotnet--"), Image("newrelic/newrelic-dotnet-init"),
        Image("newrelic/newrelic-dotnet-windows2022-init"), Image("newrelic/newrelic-dotnet-windows2025-init"),
    ]),
    // newrelic/k8s-agents-operator internal/apm/java.go, nodejs.go, python.go, ruby.go, php.go (names); newrelic/newrelic-agent-init-container
    // src/ (only dotnet has a Windows build).
    linux("New Relic agent operator", &[Setting(NEW_RELIC)], &[
        Prefix("nri-java--"), Prefix("nri-nodejs--"), Prefix("nri-python--"), Prefix("nri-ruby--"), Prefix("nri-php--"),
        Image("newrelic/newrelic-java-init"), Image("newrelic/newrelic-node-init"), Image("newrelic/newrelic-python-init"),
        Image("newrelic/newrelic-ruby-init"), Image("newrelic/newrelic-php-init"),
    ]),
    // Dynatrace/dynatrace-operator pkg/webhook/mutation/pod/mutator/config.go, pkg/webhook/mutation/pod/webhook.go mutationRequired,
    // config/helm/chart/default/templates/_helpers.tpl (image), .github/workflows/ci.yaml PLATFORMS (linux/ only). The image is the operator's own;
    // the older name install-oneagent is also written by hand.
    linux("Dynatrace Operator", &[Pod(Annotation("dynatrace.com/inject", "false"))], &[
        NameWithImage("dynatrace-operator", "dynatrace/dynatrace-operator"),
        NameWithImage("dynatrace-operator", "dynatrace/dynatrace-codemodules"),
        NameWithImage("install-oneagent", "dynatrace/dynatrace-operator"),
    ]),
    // instana/instana-autotrace-webhook README.md (labels of pods and namespaces, image; linux/ platforms only); the README beside its
    // remove-instrumentation.sh (name).
    linux("Instana AutoTrace", &[
        Pod(Label("instana-autotrace", "false")),
        Namespace(Label("instana-autotrace", "false")),
    ], &[Name("instana-instrumentation-init"), Image("instana/instrumentation")]),
    // elastic/apm-k8s-attacher patch.go createInitContainerPatch (runs cp, takes the container's name from the image), main.go (annotation),
    // charts/apm-attacher/values.yaml (images). Elastic's own examples use the images in init containers of other names.
    linux("Elastic APM attacher", &[Pod(NoAnnotation("co.elastic.apm/attach"))], &[
        NameWithImage("apm-agent-java", "observability/apm-agent-java"),
        NameWithImage("apm-agent-nodejs", "observability/apm-agent-nodejs"),
        NameWithImage("apm-agent-dotnet", "observability/apm-agent-dotnet"),
    ]),

    // Data and development.

    // GoogleCloudPlatform/cloud-sql-proxy-operator internal/workload/names.go (csql-), internal/workload/podspec_updates.go (image), docs/api.md;
    // GoogleCloudPlatform/cloud-sql-proxy Dockerfile, build.sh (linux/ only). The proxy alone is often added by hand.
    linux("Cloud SQL Proxy Operator", &[Setting("a workloadSelector of its AuthProxyWorkload that leaves the workload out")], &[
        PrefixWithImage("csql-", "cloud-sql-connectors/cloud-sql-proxy"),
    ]),
    // GoogleCloudPlatform/gcs-fuse-csi-driver pkg/webhook/mutatingwebhook.go (annotation), pkg/webhook/sidecar_spec.go
    // (names), Makefile (images; linux_amd64, linux_arm64).
    linux("Cloud Storage FUSE CSI driver", &[Pod(Annotation("gke-gcsfuse/volumes", "false"))], &[
        Name("gke-gcsfuse-sidecar"), Name("gke-gcsfuse-metadata-prefetch"),
        Image("gcs-fuse-csi-driver-sidecar-mounter"), Image("gcs-fuse-csi-driver-metadata-prefetch"),
    ]),
    // fluid-cloudnative/fluid pkg/common/volume.go, pkg/application/inject/fuse/injector.go (names with -0, -1), pkg/utils/annotations.go,
    // charts/fluid/fluid/templates/webhook/webhookconfiguration.yaml (label). FUSE is a Linux interface.
    linux("Fluid", &[Pod(NoLabel("serverless.fluid.io/inject"))], &[
        Name("fluid-fuse"), Name("init-fluid-fuse"), Prefix("fluid-fuse-"), Prefix("init-fluid-fuse-"),
    ]),
    // telepresenceio/telepresence pkg/agentconfig/sidecar.go, cmd/traffic/cmd/manager/mutator/agent_injector.go,
    // docs/reference/cluster-config.md (annotation; the second key is that of older versions), .github/workflows/release.yaml (linux/ only).
    // The image is also that of its manager.
    linux("Telepresence", &[
        Pod(Annotation("telepresence.io/inject-traffic-agent", "disabled")),
        Pod(Annotation("telepresence.getambassador.io/inject-traffic-agent", "disabled")),
    ], &[Name("tel-agent-init"), NameWithImage("traffic-agent", "tel2")]),
];

const NEW_RELIC: &str = "a podLabelSelector of its Instrumentation that leaves the pod out";

#[cfg(test)]
mod tests {

    #![allow(clippy::unwrap_used, clippy::expect_used, clippy::indexing_slicing, clippy::panic, reason = "tests")]

    use std::collections::BTreeSet;

    use proptest::prelude::*;

    use super::*;

    const DIGEST: &str = "sha256:0123456789abcdef0123456789abcdef0123456789abcdef0123456789abcdef";

    fn found(container: &str, image: &str) -> Option<&'static str> {
        injector_of(container, image).map(|injector| injector.name)
    }

    #[rustfmt::skip]
    const EXAMPLES: &[(&str, &str, &str)] = &[
        ("istio-proxy", "docker.io/istio/proxyv2:1.22.0", "Istio"),
        ("istio-proxy", "auto", "Istio"),
        ("istio-init", "gcr.io/istio-release/proxyv2:1.20.3", "Istio"),
        ("istio-validation", "registry.corp/team/x:1", "Istio"),
        ("proxy", "registry.example.com/mirror/istio/proxyv2:1.22", "Istio"),
        ("proxy", "istio/proxyv2", "Istio"),
        ("p", "gke.gcr.io/asm/proxyv2:1.28.5-asm.9", "Istio"),
        ("p", "registry.redhat.io/openshift-service-mesh/istio-proxyv2-rhel9:1.26", "Istio"),
        ("linkerd-proxy", "cr.l5d.io/linkerd/proxy:edge-24.11.8", "Linkerd"),
        ("linkerd-init", "cr.l5d.io/linkerd/proxy-init:v2.4.1", "Linkerd"),
        ("sidecar", "localhost:5000/linkerd/proxy:stable-2.14.10", "Linkerd"),
        ("consul-dataplane", "hashicorp/consul-dataplane:1.5.0", "Consul"),
        ("consul-dataplane-web-admin", "docker.mirror.hashicorp.services/hashicorppreview/consul-dataplane:2.1.0-dev", "Consul"),
        ("consul-connect-inject-init-web", "hashicorp/consul-k8s-control-plane:1.5.0", "Consul"),
        ("kuma-sidecar", "docker.io/kumahq/kuma-dp:2.8.1", "Kuma"),
        ("kuma-init", "registry.corp/kumahq/kuma-init:2.8.1", "Kuma"),
        ("envoy", "840364872350.dkr.ecr.us-west-2.amazonaws.com/aws-appmesh-envoy:v1.29.9.0-prod", "AWS App Mesh"),
        ("proxyinit", "public.ecr.aws/appmesh/aws-appmesh-proxy-route-manager:v7-prod", "AWS App Mesh"),
        ("osm-init", "openservicemesh/init:v1.2.4", "Open Service Mesh"),
        ("nginx-mesh-sidecar", "docker-registry.nginx.com/nsm/nginx-mesh-sidecar:2.0.0", "NGINX Service Mesh"),
        ("daprd", "docker.io/daprio/daprd:1.14.4", "Dapr"),
        ("daprd", "ghcr.io/dapr/daprd:1.14.4-mariner", "Dapr"),
        ("vault-agent-init", "hashicorp/vault:1.18.1", "HashiCorp Vault Agent injector"),
        ("vault-agent", "registry.corp/hub/hashicorp/vault:1.18.1", "HashiCorp Vault Agent injector"),
        ("copy-vault-env", "ghcr.io/bank-vaults/vault-env:v1.21.8", "Bank-Vaults"),
        ("copy-op-bin", "1password/op:2", "1Password secrets injector"),
        ("azwi-proxy", "mcr.microsoft.com/oss/azure/workload-identity/proxy:v1.6.0", "Azure Workload Identity proxy"),
        ("azwi-proxy-init", "mcr.microsoft.com/oss/azure/workload-identity/proxy-init:v1.6.0", "Azure Workload Identity proxy"),
        ("setup-ca-certs", "registry.corp/tanzu/setup-ca-certs:1", "Cert Injection Webhook"),
        ("datadog-lib-java-init", "gcr.io/datadoghq/dd-lib-java-init:v1", "Datadog library injection"),
        ("datadog-init-apm-inject", "public.ecr.aws/datadog/apm-inject:0", "Datadog library injection"),
        ("datadog-agent-injected", "public.ecr.aws/datadog/agent:7", "Datadog Agent sidecar"),
        ("otc-container", "otel/opentelemetry-collector-contrib:0.115.0", "OpenTelemetry Operator collector sidecar"),
        ("opentelemetry-auto-instrumentation-java", "{{ .Values.java }}", "OpenTelemetry Operator (Java)"),
        ("opentelemetry-auto-instrumentation", "ghcr.io/open-telemetry/opentelemetry-operator/autoinstrumentation-python:0.50b0", "OpenTelemetry Operator (Python)"),
        ("otel-agent-attach-nginx", "ghcr.io/open-telemetry/opentelemetry-operator/autoinstrumentation-apache-httpd:1.0.4", "OpenTelemetry Operator (nginx)"),
        ("otel-agent-attach-apache", "ghcr.io/open-telemetry/opentelemetry-operator/autoinstrumentation-apache-httpd:1.0.4", "OpenTelemetry Operator (Apache httpd)"),
        ("nri-java--app", "newrelic/newrelic-java-init:latest", "New Relic agent operator"),
        ("nri-dotnet--app", "newrelic/newrelic-dotnet-windows2022-init:latest", "New Relic agent operator (.NET)"),
        ("dynatrace-operator", "public.ecr.aws/dynatrace/dynatrace-operator:v1.4.0", "Dynatrace Operator"),
        ("instana-instrumentation-init", "icr.io/instana/instrumentation:1.294.0", "Instana AutoTrace"),
        ("apm-agent-java", "docker.elastic.co/observability/apm-agent-java:latest", "Elastic APM attacher"),
        ("csql-default-db", "gcr.io/cloud-sql-connectors/cloud-sql-proxy:2.24.1", "Cloud SQL Proxy Operator"),
        ("gke-gcsfuse-sidecar", "gke.gcr.io/gcs-fuse-csi-driver-sidecar-mounter:v1.8.9-gke.2", "Cloud Storage FUSE CSI driver"),
        ("fluid-fuse-0", "juicedata/juicefs-fuse:v1.0.4", "Fluid"),
        ("traffic-agent", "ghcr.io/telepresenceio/tel2:2.20.0", "Telepresence"),
        ("tel-agent-init", "docker.io/datawire/tel2:2.14.1", "Telepresence"),

        // Not from an injector, or the same as what people add by hand.
        ("proxy", "registry.corp/team/proxy:1", ""),
        ("app", "myistio/proxyv2-tools:1", ""),
        ("app", "myistio/proxyv2:1", ""),
        ("app", "istio/pilot:1.22", ""),
        ("app", "istio/proxyv2/tools:1", ""),
        ("app", "istio.proxyv2.example.com/app:1", ""),
        ("app", "daprd.example.com/app:daprd", ""),
        ("app", "acme/not-daprd", ""),
        ("my-istio-proxy", "nginx", ""),
        ("istio-proxy-config", "nginx", ""),
        ("Istio-Proxy", "nginx", ""),
        ("envoy", "envoyproxy/envoy:v1.31-latest", ""),
        ("vault", "hashicorp/vault:1.18.1", ""),
        ("vault-agent", "acme/vault-agent:1", ""),
        ("jaeger-agent", "jaegertracing/jaeger-agent:1.62", ""),
        ("secrets-provider", "cyberark/secrets-provider-for-k8s:latest", ""),
        ("cloud-sql-proxy", "gcr.io/cloud-sql-connectors/cloud-sql-proxy:2.24.1", ""),
        ("csql-", "gcr.io/cloud-sql-connectors/cloud-sql-proxy:2.24.1", ""),
        ("csql-import", "postgres:17", ""),
        ("operator", "public.ecr.aws/dynatrace/dynatrace-operator:v1.4.0", ""),
        ("install-oneagent", "alpine:3", ""),
        ("elastic-java-agent", "docker.elastic.co/observability/apm-agent-java:latest", ""),
        ("traffic-agent", "acme/traffic-agent:1", ""),
        ("traffic-manager", "ghcr.io/telepresenceio/tel2:2.20.0", ""),
        ("setup-ca-certs", "alpine:3", ""),
        ("agent", "gcr.io/datadoghq/agent:7", ""),
        ("otel-agent-source-container-clone", "acme/shop:1", ""),
        ("collector", "otel/opentelemetry-collector-contrib:0.115.0", ""),
        ("nri-java--", "acme/x", ""),
        ("app", "", ""),
        ("", "", ""),
        ("", "istio/proxyv2:", ""),
        ("app", "https://registry.corp/istio/proxyv2", ""),
        ("app", "{{ .Values.hub }}/istio/proxyv2:1", ""),
        ("app", " istio/proxyv2", ""),
        ("app", "ISTIO/PROXYV2", ""),
        ("\u{0}\u{202e}istio-proxy", "\u{feff}istio/proxyv2", ""),
    ];

    #[test]
    fn containers_seen() {
        for &(container, image, name) in EXAMPLES {
            assert_eq!(found(container, image).unwrap_or_default(), name, "{container} {image}");
        }
    }

    #[test]
    fn every_row_has_an_example() {
        let seen: BTreeSet<_> = EXAMPLES.iter().filter_map(|&(container, image, _)| found(container, image)).collect();
        let missing: Vec<_> = INJECTORS
            .iter()
            .map(|injector| injector.name)
            // The rows for languages have the same kinds of signs; EXAMPLES contains some of them.
            .filter(|name| !seen.contains(name) && !name.starts_with("OpenTelemetry Operator ("))
            .collect();
        assert!(missing.is_empty(), "{missing:?}");
    }

    /// No row hides a sign of a later one, and a mirror, tag or digest does not hide a sign.
    #[test]
    fn every_sign_finds_its_row() {
        for injector in INJECTORS {
            for sign in injector.signs {
                let (container, components) = match *sign {
                    Name(name) => (name.to_owned(), None),
                    Prefix(start) => (format!("{start}x"), None),
                    Image(components) => ("app".to_owned(), Some(components)),
                    NameWithImage(name, components) => (name.to_owned(), Some(components)),
                    PrefixWithImage(start, components) => (format!("{start}x"), Some(components)),
                };
                let Some(components) = components else {
                    for image in ["", "registry.corp/x/y:1", "${IMAGE}"] {
                        assert_eq!(injector_of(&container, image), Some(injector), "{container} {image}");
                    }
                    continue;
                };
                for (before, after) in [
                    ("", ""),
                    ("docker.io/", ":1.2.3"),
                    ("registry.example.com/mirror/deep/", ":1"),
                    ("[2001:db8::1]:5000/", &format!("@{DIGEST}")),
                    ("x/", &format!(":1@{DIGEST}")),
                ] {
                    let image = format!("{before}{components}{after}");
                    assert_eq!(injector_of(&container, &image), Some(injector), "{container} {image}");
                    assert_eq!(injector_of("app", &format!("{before}my{components}{after}")), None, "my{components}");
                    assert_eq!(injector_of("app", &format!("{before}{components}-tools{after}")), None, "{components}");
                }
            }
        }
    }

    /// Labels and annotations are valid, so that no finding proposes what the API server rejects.
    #[test]
    fn rows_are_well_formed() {
        let name_fits = |text: &str, more: &[char]| {
            let inner = |letter: char| letter.is_ascii_alphanumeric() || more.contains(&letter);
            let end = |letter: char| letter.is_ascii_alphanumeric();
            text.len() <= 63 && text.chars().all(inner) && text.starts_with(end) && text.ends_with(end)
        };
        let key_fits = |key: &str| match key.split_once('/') {
            Some((prefix, name)) => {
                prefix.split('.').all(|part| name_fits(part, &['-'])) && name_fits(name, &['-', '_', '.'])
            }
            None => name_fits(key, &['-', '_', '.']),
        };
        let names: BTreeSet<_> = INJECTORS.iter().map(|injector| injector.name).collect();
        assert_eq!(names.len(), INJECTORS.len());
        for injector in INJECTORS {
            let name = injector.name;
            assert!(!injector.opt_outs.is_empty() && !injector.signs.is_empty(), "{name}");
            for opt_out in injector.opt_outs {
                let mark = match opt_out {
                    Pod(mark) | Namespace(mark) => mark,
                    Setting(text) => {
                        assert!(!text.is_empty() && !text.ends_with('.'), "{name}");
                        continue;
                    }
                };
                match *mark {
                    Label(key, value) | NodeSelector(key, value) | Annotation(key, value) => {
                        assert!(key_fits(key) && name_fits(value, &['-', '_', '.']), "{name}: {key}: {value}");
                    }
                    NoLabel(key) | NoAnnotation(key) => assert!(key_fits(key), "{name}: {key}"),
                }
                assert!(!matches!(opt_out, Namespace(NodeSelector(..))), "{name}");
            }
            for sign in injector.signs {
                let (Image(image) | NameWithImage(_, image) | PrefixWithImage(_, image)) = sign else { continue };
                assert_eq!(ImageRef::parse(image).map(|image| image.repository()), Ok(*image), "{name}");
            }
        }
    }

    #[test]
    fn clauses() {
        let clauses = |container| -> Vec<String> {
            injector_of(container, "").unwrap().opt_outs.iter().map(ToString::to_string).collect()
        };
        let cases: &[(&str, &[&str])] = &[
            (
                "istio-proxy",
                &[r#"label sidecar.istio.io/inject: "false""#, r#"label istio-injection: "disabled" on the namespace"#],
            ),
            (
                "linkerd-init",
                &[
                    r#"annotation linkerd.io/inject: "disabled""#,
                    r#"annotation linkerd.io/inject: "disabled" on the namespace"#,
                ],
            ),
            ("azwi-proxy", &["no annotation azure.workload.identity/inject-proxy-sidecar"]),
            ("fluid-fuse", &["no label serverless.fluid.io/inject"]),
            ("nri-php--app", &["a podLabelSelector of its Instrumentation that leaves the pod out"]),
        ];
        for &(container, expected) in cases {
            assert_eq!(clauses(container), expected, "{container}");
        }
        assert_eq!(clauses("osm-init")[0], r#"nodeSelector kubernetes.io/os: "windows" in the pod template"#);
    }

    #[test]
    fn what_exists_for_windows() {
        for (container, systems) in [
            ("daprd", Systems::LinuxAndWindows),
            ("datadog-agent-injected", Systems::LinuxAndWindows),
            ("otc-container", Systems::LinuxAndWindows),
            ("nri-dotnet--app", Systems::LinuxAndWindows),
            ("istio-proxy", Systems::Linux),
            ("nri-java--app", Systems::Linux),
        ] {
            assert_eq!(injector_of(container, "").unwrap().systems, systems, "{container}");
        }
    }

    proptest! {
        #[test]
        fn any_text_has_a_result(container in "\\PC*", image in "\\PC*") {
            // No text from these alphabets contains a sign by chance.
            prop_assert_eq!(injector_of(&container, &image), None);
        }

        /// The registry and the tag do not matter.
        #[test]
        fn only_the_path_counts(container in "[a-m]{1,8}", sign in "(istio-proxy|daprd|linkerd)", path in "[a-m]{1,8}") {
            prop_assert_eq!(injector_of(&container, &format!("{sign}.example.com/{path}:{sign}")), None);
        }
    }
}
