//! The inputs on a command line: files, objects of a cluster, or all workloads of namespaces.

use std::path::{Path, PathBuf};

use anyhow::{bail, ensure};

use crate::cli::input::{Inputs, is_stdin};
use crate::cli::live::arguments::LiveArguments;
use crate::cli::policy_files::CLUSTER_WORD;
use crate::cluster::reading::{Kind, WORKLOADS};

/// What a command reads.
#[derive(Debug, PartialEq, Eq)]
pub(crate) struct InputPlan {
    pub(crate) files: Vec<PathBuf>,
    /// `None`: no cluster is contacted.
    pub(crate) cluster: Option<ClusterScope>,
    /// Files whose names are also those of objects, with another name of the object.
    pub(crate) ambiguous: Vec<String>,
}

/// What is read from the cluster, besides what a snapshot contains.
#[derive(Debug, PartialEq, Eq)]
pub(crate) enum ClusterScope {
    /// All workloads.
    AllNamespaces,
    /// All workloads of the namespace.
    Namespace,
    /// These objects of the namespace; empty if only files are checked.
    Objects(Vec<ObjectReference>),
}

/// `KIND/NAME`.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct ObjectReference {
    pub(crate) kind: &'static Kind,
    pub(crate) name: String,
}

impl ObjectReference {
    /// Reads `deploy/web`. `None` if it is not a workload.
    fn parse(text: &str) -> Option<Self> {
        let (kind, name) = text.split_once('/')?;
        let allowed = |byte: u8| byte.is_ascii_lowercase() || byte.is_ascii_digit() || matches!(byte, b'-' | b'.');
        let valid =
            !name.is_empty() && name.len() <= 253 && name.bytes().all(allowed) && name.trim_matches('.') == name;
        let kind = WORKLOADS.iter().find(|known| known.is_called(kind)).filter(|_| valid)?;
        Some(Self { kind, name: name.to_owned() })
    }
}

/// How a command selects objects of a cluster.
#[derive(Debug, Clone, Copy)]
pub(crate) struct ScopeRules<'a> {
    /// The name of the command, for messages.
    pub(crate) command: &'a str,
    /// Whether the policies in force in a cluster are requested: then `--kubeconfig` names the cluster.
    pub(crate) needs_policies: bool,
    /// Whether the command reads all workloads of a namespace if the command line names none.
    pub(crate) lists: bool,
}

/// The plan for a command line, or what is wrong with it. An argument that `exists` is a file.
pub(crate) fn plan(
    rules: ScopeRules<'_>,
    live: &LiveArguments,
    inputs: &Inputs,
    exists: &dyn Fn(&Path) -> bool,
) -> anyhow::Result<InputPlan> {
    let ScopeRules { command, needs_policies, lists } = rules;
    let (mut files, mut objects, mut ambiguous) = (Vec::new(), Vec::new(), Vec::new());
    for path in &inputs.paths {
        match path.to_str().filter(|text| !is_stdin(text)).and_then(ObjectReference::parse) {
            Some(object) if !exists(path) => objects.push(object),
            Some(ObjectReference { kind, name }) => {
                ambiguous.push(format!(
                    "{} exists here, so it is read as a file; to read the object of a cluster, write {}/{name}, or run \
                     this in another directory",
                    path.display(),
                    [kind.plural.to_owned(), kind.name.to_lowercase()]
                        .into_iter()
                        .find(|kind| !path.starts_with(kind))
                        .unwrap_or_default()
                ));
                files.push(path.clone());
            }
            None => files.push(path.clone()),
        }
    }
    let cluster = &live.cluster;
    let by_kubeconfig = cluster.kubeconfig.is_some() && (needs_policies || !lists);
    let listed = files.is_empty() && objects.is_empty();
    let selects = inputs.namespace.is_some() || live.names_a_cluster();
    let reads_cluster = live.all_namespaces
        || cluster.context.is_some()
        || by_kubeconfig
        || !objects.is_empty()
        || listed && lists && selects;
    if !reads_cluster {
        let given = [
            ("--kubeconfig", cluster.kubeconfig.is_some()),
            ("--as", cluster.impersonated_user.is_some()),
            ("--selector", live.selector.is_some()),
            ("--field-selector", live.field_selector.is_some()),
        ];
        if let Some((argument, _)) = given.iter().find(|(_, given)| *given) {
            bail!(
                "{command}: {argument} is for a cluster; add --context NAME to review files with its nodes and policies, or name no files"
            );
        }
        ensure!(
            !needs_policies,
            "{command}: the policies {CLUSTER_WORD} are those in force in a cluster; name it with {}--context NAME; a \
             directory of that name is ./{CLUSTER_WORD}",
            if lists { "-A, " } else { "--kubeconfig FILE, " }
        );
        return Ok(InputPlan { files, cluster: None, ambiguous });
    }
    if live.all_namespaces {
        if let Some(ObjectReference { kind, name }) = objects.first() {
            let kind = kind.name.to_lowercase();
            bail!("{command}: {kind}/{name} is one object, and -A reads all; leave out one of them");
        }
        ensure!(
            files.is_empty(),
            "{command}: -A reads all workloads of a cluster; name no files, or write --context NAME instead of -A to review \
             them with the nodes of that cluster"
        );
    }
    if let Some(unknown) = files.iter().find(|file| !exists(file) && is_reference(file)) {
        let kinds: Vec<&str> = WORKLOADS.iter().map(|kind| kind.plural).collect();
        bail!(
            "{command}: {} is no file and no object with pods; write KIND/NAME with one of {}",
            unknown.display(),
            kinds.join(", ")
        );
    }
    ensure!(
        listed || live.selector.is_none() && live.field_selector.is_none(),
        "{command}: --selector and --field-selector select among all workloads; name no files and no objects"
    );
    let cluster = match () {
        () if live.all_namespaces => ClusterScope::AllNamespaces,
        () if listed && lists => ClusterScope::Namespace,
        () => ClusterScope::Objects(objects),
    };
    Ok(InputPlan { files, cluster: Some(cluster), ambiguous })
}

/// Whether an argument looks like `KIND/NAME`: `svc/web`, and not `a/b.yaml`.
fn is_reference(path: &Path) -> bool {
    let Some((kind, name)) = path.to_str().and_then(|text| text.split_once('/')) else { return false };
    let word = |text: &str| !text.is_empty() && text.bytes().all(|byte| byte.is_ascii_alphanumeric() || byte == b'-');
    word(kind) && word(name)
}

#[cfg(test)]
mod tests {

    #![allow(clippy::unwrap_used, clippy::indexing_slicing, reason = "tests")]

    use super::*;
    use crate::cli::cluster_arguments::ClusterArguments;
    use crate::cli::input::LinkArgs;

    #[test]
    fn references() {
        let table = [
            ("pod/web-0", Some(("Pod", "web-0"))),
            ("po/web.v1", Some(("Pod", "web.v1"))),
            ("Deployments/a", Some(("Deployment", "a"))),
            ("cj/a", Some(("CronJob", "a"))),
            ("svc/web", None),
            ("pod", None),
            ("pod/", None),
            ("pod/..", None),
            ("pod/a/b", None),
            ("pod/Web", None),
            ("pod/a b", None),
            ("pod/%2e%2e", None),
            ("/pod/a", None),
            (&format!("pod/{}", "a".repeat(254)), None),
        ];
        for (text, expected) in table {
            let found = ObjectReference::parse(text);
            let found = found.as_ref().map(|found| (found.kind.name, found.name.as_str()));
            assert_eq!(found, expected, "{text}");
        }
    }

    /// A command line as `check -n NS --context NAME -A PATH…`.
    fn of(line: &str) -> Result<InputPlan, String> {
        let mut arguments = LiveArguments::default();
        let mut inputs = Inputs { paths: Vec::new(), namespace: None, links: LinkArgs::default() };
        let mut words = line.split(' ').filter(|word| !word.is_empty());
        while let Some(word) = words.next() {
            let mut value = || Some(words.next().unwrap().to_owned());
            match word {
                "-A" => arguments.all_namespaces = true,
                "-n" => inputs.namespace = value(),
                "-l" => arguments.selector = value(),
                "--field-selector" => arguments.field_selector = value(),
                "--context" => arguments.cluster.context = value(),
                "--as" => arguments.cluster.impersonated_user = value(),
                "--kubeconfig" => {
                    arguments.cluster =
                        ClusterArguments { kubeconfig: value().map(PathBuf::from), ..arguments.cluster };
                }
                path => inputs.paths.push(PathBuf::from(path)),
            }
        }
        let exists = |path: &Path| ["a.yaml", "pod/file"].iter().any(|known| path == Path::new(known));
        let rules = ScopeRules { command: "check", needs_policies: false, lists: true };
        plan(rules, &arguments, &inputs, &exists).map_err(|error| error.to_string())
    }

    #[test]
    fn what_is_read() {
        let object = |text: &&str| ObjectReference::parse(text).unwrap();
        let objects = |texts: &[&str]| Some(ClusterScope::Objects(texts.iter().map(object).collect()));
        let table: [(&str, &[&str], Option<ClusterScope>); 22] = [
            ("", &[], None),
            ("a.yaml -", &["a.yaml", "-"], None),
            ("missing.yaml -n shop", &["missing.yaml"], None),
            ("a.yaml -n shop", &["a.yaml"], None),
            // The current context.
            ("-n shop", &[], Some(ClusterScope::Namespace)),
            ("-n shop --as bob", &[], Some(ClusterScope::Namespace)),
            ("-l a=b", &[], Some(ClusterScope::Namespace)),
            ("deploy/web", &[], objects(&["deploy/web"])),
            ("deploy/web --kubeconfig k", &[], objects(&["deploy/web"])),
            ("-A -n shop", &[], Some(ClusterScope::AllNamespaces)),
            // An argument that exists is a file.
            ("pod/file -n shop", &["pod/file"], None),
            ("pod/file --context prod", &["pod/file"], objects(&[])),
            ("-A", &[], Some(ClusterScope::AllNamespaces)),
            ("--context prod -A", &[], Some(ClusterScope::AllNamespaces)),
            ("--context prod", &[], Some(ClusterScope::Namespace)),
            ("--context prod -n shop -l a=b --field-selector c=d", &[], Some(ClusterScope::Namespace)),
            ("pod/web -n shop", &[], objects(&["pod/web"])),
            ("pod/web ds/agent --context prod", &[], objects(&["pod/web", "ds/agent"])),
            ("a.yaml pod/web -n shop", &["a.yaml"], objects(&["pod/web"])),
            ("a.yaml --context prod", &["a.yaml"], objects(&[])),
            ("- --context prod", &["-"], objects(&[])),
            ("pod/web -n shop --kubeconfig k --as bob", &[], objects(&["pod/web"])),
        ];
        for (line, files, cluster) in table {
            let found = of(line).unwrap();
            let files: Vec<PathBuf> = files.iter().map(PathBuf::from).collect();
            assert_eq!((found.files, found.cluster), (files, cluster), "{line}");
            assert_eq!(!found.ambiguous.is_empty(), line.contains("pod/file"), "{line}");
        }
        let ambiguous = of("pod/file").unwrap().ambiguous;
        assert!(
            ambiguous[0].starts_with("pod/file exists here, so it is read as a file")
                && ambiguous[0].contains("pods/file")
        );
    }

    #[test]
    fn what_cannot_be_read() {
        let table = [
            ("a.yaml --kubeconfig k", "check: --kubeconfig is for a cluster; add --context NAME to review files"),
            ("a.yaml -n shop --as bob", "check: --as is for a cluster"),
            ("- -l a=b", "check: --selector is for a cluster"),
            ("a.yaml --field-selector a=b", "check: --field-selector is for a cluster"),
            ("-A pod/web", "check: pod/web is one object, and -A reads all"),
            ("-A a.yaml", "check: -A reads all workloads of a cluster; name no files"),
            (
                "svc/web --context prod",
                "check: svc/web is no file and no object with pods; write KIND/NAME with one of dep",
            ),
            ("pod/web -n shop -l a=b", "check: --selector and --field-selector select among all workloads"),
            ("a.yaml --context prod -l a=b", "check: --selector and --field-selector select among all workloads"),
        ];
        for (line, expected) in table {
            let error = of(line).unwrap_err();
            assert!(error.starts_with(expected), "{line}: {error}");
        }
    }
}
