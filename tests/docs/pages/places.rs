//! The place in which each command of a page is run: here, on a cluster, or, with a reason, nowhere.

use super::page::{Run, Section};

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Place {
    /// In a directory with the page's files and the repository's `examples`, `policies` and `charts`.
    Here,
    /// In such a directory with a cluster: `tests/installed`.
    Cluster,
    /// Not run by these tests, with the reason.
    Nowhere(&'static str),
}

/// Commands that are not run, by their beginnings.
const NOWHERE: [(&str, &str); 24] = [
    ("make demo", ".ci/run runs it"),
    ("make check", "runs these tests"),
    ("make test", "runs these tests"),
    ("make up", "starts the cluster of `make demo`, and leaves it running"),
    ("make down", "stops what `make up` starts"),
    ("kind ", "needs a container runtime, and images from a network"),
    ("kubectl apply -f https://", "needs a network"),
    (
        "kubectl rollout status --namespace kube-system deployment/kwok-controller",
        "needs what the command before it downloads",
    ),
    ("az ", "needs an Azure subscription"),
    ("eksctl ", "needs an AWS account"),
    ("aws ", "needs an AWS account"),
    ("docker push", "needs a registry with write access"),
    ("make image", "takes minutes; tests/cli/packing.rs tests the files that it uses"),
    ("cargo install --path .", "takes minutes, and `make test` builds the same program"),
    ("podman push", "needs a registry with write access"),
    ("kubectl port-forward", "needs a kubelet"),
    ("kubectl mullion ", "tests/on_cluster/plugin.rs tests the plugin with kubectl"),
    ("kubectl delete configmap/mullion-state ", "a running controller creates the ConfigMap again"),
    ("mullion survey --context ", "needs a kubeconfig with this context"),
    ("mullion plan --context ", "needs a kubeconfig with this context"),
    ("curl ", "needs the port of `kubectl port-forward`"),
    ("kubectl logs ", "needs a kubelet"),
    ("kubectl debug node/", "needs a kubelet"),
    ("kubectl create configmap api-server-client-ca ", "needs a file of a control-plane node"),
];

/// Commands that need a cluster.
const CLUSTER_COMMANDS: [&str; 8] = [
    "kubectl ",
    "helm ",
    "mullion status",
    "mullion withdraw",
    "mullion controller",
    "mullion webhook",
    "--kubeconfig",
    " -A",
];

/// The commands of a page in order, each with its place. A command that reads a file that a cluster command writes is a
/// cluster command too.
pub fn of(sections: &[Section]) -> Vec<(Run, Place)> {
    let mut written: Vec<String> = Vec::new();
    let mut all = Vec::new();
    for run in sections.iter().flat_map(Section::commands) {
        let command = run.command.as_str();
        let uses_cluster = CLUSTER_COMMANDS.iter().any(|words| command.contains(words));
        let place = match exception(command) {
            Some((_, why)) => Place::Nowhere(why),
            None if uses_cluster || written.iter().any(|file| command.contains(file)) => Place::Cluster,
            None => Place::Here,
        };
        if place == Place::Cluster {
            let file = command.split_once("> ").and_then(|(_, file)| file.split_whitespace().next());
            written.extend(file.map(str::to_owned));
        }
        all.push((run, place));
    }
    all
}

pub fn exception(command: &str) -> Option<(&'static str, &'static str)> {
    NOWHERE.into_iter().find(|(begin, _)| command.starts_with(begin))
}

/// Exceptions that no page needs.
#[allow(dead_code, reason = "used by one of the test programs")]
pub fn unused<'p>(commands: impl Iterator<Item = &'p str> + Clone) -> impl Iterator<Item = &'static str> {
    NOWHERE
        .into_iter()
        .map(|(begin, _)| begin)
        .filter(move |begin| !commands.clone().any(|command| command.starts_with(begin)))
}
