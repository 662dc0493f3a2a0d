//! The policies, the snapshot and the manifests that a test refers to.

use std::collections::BTreeMap;
use std::path::{Path, PathBuf};

use jiff::Timestamp;
use mullion_engine::model::cluster::{ClusterSnapshot, Namespace, Nodes, Taint};
use mullion_engine::model::json_pointer::escape;
use mullion_engine::model::names::{OS_LABEL, WINDOWS_BUILD_LABEL};
use mullion_engine::model::text::list;
use mullion_engine::model::{ReviewRequest, WorkloadKind, WorkloadObject};
use mullion_manifest::Problem;
use mullion_policy::test_cases::{NamespaceSpec, NodeFixture, PolicyTest, ShortForm, SnapshotSpec, TestCase, TestFile};
use mullion_policy::{PolicyFiles, PolicySet};
use mullion_snapshot::dump;
use serde_json::{Value, json};

use crate::cli::documents::ManifestFile;
use crate::cli::input::{SourceText, read_file};
use crate::cli::policy::test::compare::compare;
use crate::cli::policy::test::lines;
use crate::cli::policy::test::results::CaseResult;
use crate::cli::policy::test::review::review_object;
use crate::cli::policy_files::read_policy_files;

/// A test with its policies and its snapshot.
pub(crate) struct LoadedTest<'f> {
    loader: Loader<'f>,
    policies: PolicySet,
    snapshot: ClusterSnapshot,
}

/// Reads the policies and the snapshot of a test. Fails with all problems of both.
pub(crate) fn ready<'f>(file: &'f TestFile, test: &'f PolicyTest) -> Result<LoadedTest<'f>, Vec<Problem>> {
    let loader = Loader { file, test };
    let policies = loader.policies();
    let snapshot = loader.load_snapshot().map_err(|problem| vec![*problem]);
    match (policies, snapshot) {
        (Ok(policies), Ok(snapshot)) => Ok(LoadedTest { loader, policies, snapshot }),
        (policies, snapshot) => Err([policies.err(), snapshot.err()].into_iter().flatten().flatten().collect()),
    }
}

struct Loader<'f> {
    file: &'f TestFile,
    test: &'f PolicyTest,
}

impl Loader<'_> {
    fn policies(&self) -> Result<PolicySet, Vec<Problem>> {
        let Some(named) = &self.test.spec.policies else {
            let beside = read_policy_files(&[self.path("")]);
            if beside.texts.is_empty() {
                let message = "there is no policy file next to this one".to_owned();
                let hint = "name files or directories under `policies`";
                return Err(vec![self.file.problem(self.test, "", message, hint)]);
            }
            return self.load_policies(&beside);
        };
        let paths: Vec<PathBuf> = named.iter().map(|name| self.path(name)).collect();
        if let Some((at, path)) = paths.iter().enumerate().find(|(_, path)| !path.exists()) {
            let message = format!("there is no {}", path.display());
            let pointer = format!("/policies/{at}");
            return Err(vec![self.file.problem(self.test, &pointer, message, "paths are relative to this file")]);
        }
        self.load_policies(&read_policy_files(&paths))
    }

    /// The set at the date of the test.
    fn load_policies(&self, files: &PolicyFiles) -> Result<PolicySet, Vec<Problem>> {
        let now = self.test.spec.seconds().unwrap_or_else(|| Timestamp::now().as_second());
        Ok(PolicySet::load(files)?.at(now))
    }

    fn load_snapshot(&self) -> Result<ClusterSnapshot, Box<Problem>> {
        let spec = match &self.test.spec.snapshot {
            None => return dump::from_text("built-in snapshot", include_bytes!("snapshot.yaml")),
            Some(ShortForm::Short(file)) => &SnapshotSpec { file: Some(file.clone()), ..SnapshotSpec::default() },
            Some(ShortForm::Full(spec)) => spec,
        };
        let mut snapshot = ClusterSnapshot::default();
        if let Some(name) = &spec.file {
            let path = self.path(name);
            let short = matches!(self.test.spec.snapshot, Some(ShortForm::Short(_)));
            let pointer = if short { "/snapshot" } else { "/snapshot/file" };
            let bytes = read_file(&path).map_err(|error| Box::new(self.unreadable(pointer, &path, &error)))?;
            snapshot = dump::from_text(&path.display().to_string(), &bytes)?;
        }
        let nodes = spec.nodes.iter().map(node).enumerate().map(|(at, node)| (format!("/snapshot/nodes/{at}"), node));
        let objects = spec.objects.iter().cloned().enumerate();
        let objects = objects.map(|(at, object)| (format!("/snapshot/objects/{at}"), object));
        for (pointer, object) in nodes.chain(objects) {
            self.add(&mut snapshot, &pointer, &object)?;
        }
        Ok(snapshot)
    }

    /// Adds one object; a later object replaces an earlier one of the same name.
    fn add(&self, snapshot: &mut ClusterSnapshot, pointer: &str, object: &Value) -> Result<(), Box<Problem>> {
        let kind = object.get("kind").and_then(Value::as_str).unwrap_or_default();
        let known = ["Node", "RuntimeClass", "Namespace", "ImagePlatforms"];
        if !known.contains(&kind) {
            let message = format!("a snapshot has no {}", if kind.is_empty() { "object without a kind" } else { kind });
            let hint = "it contains Nodes, RuntimeClasses, Namespaces and ImagePlatforms";
            return Err(Box::new(self.file.problem(self.test, pointer, message, hint)));
        }
        let more = dump::from_text("", object.to_string().as_bytes())
            .map_err(|problem| Box::new(self.file.problem(self.test, pointer, problem.message, "")))?;
        if let Some(more) = more.nodes {
            let added = |name: &str| more.iter().any(|node| node.name == name);
            let before = snapshot.nodes.take();
            let kept = before.iter().flat_map(Nodes::iter).filter(|node| !added(&node.name)).cloned();
            let all = kept.chain(more.iter().cloned()).collect();
            snapshot.nodes = Some(Nodes::new(all));
        }
        if let Some(classes) = more.runtime_classes {
            snapshot.runtime_classes.get_or_insert_default().extend(classes);
        }
        snapshot.namespaces.extend(more.namespaces);
        snapshot.images.extend(more.images);
        Ok(())
    }

    /// A path in the test file, relative to the working directory.
    fn path(&self, named: &str) -> PathBuf {
        let directory = Path::new(&self.file.name).parent().unwrap_or(Path::new(""));
        match (directory.as_os_str().is_empty(), named.is_empty()) {
            (true, true) => PathBuf::from("."),
            (false, true) => directory.to_owned(),
            (_, false) => directory.join(named),
        }
    }

    fn unreadable(&self, pointer: &str, path: &Path, error: &std::io::Error) -> Problem {
        let message = format!("{} cannot be read: {error}", path.display());
        self.file.problem(self.test, pointer, message, "paths are relative to this file")
    }

    fn object(&self, at: usize, case: &TestCase) -> Result<Value, Box<Problem>> {
        let Some(name) = &case.file else { return Ok(case.object.clone().unwrap_or_default()) };
        let object = self.workload(at, name, case.select.as_deref())?;
        let kind = object.get("kind").and_then(Value::as_str).unwrap_or_default();
        if kind == "Pod" && case.expect.pod.is_some() {
            let message = format!("`cases[{at}].expect.pod` is for objects with a pod template");
            let hint = "a Pod is stored itself: write `stored`";
            return Err(Box::new(self.file.problem(self.test, &format!("/cases/{at}/expect/pod"), message, hint)));
        }
        Ok(object)
    }

    /// The only workload of a file, or the one that is selected.
    fn workload(&self, at: usize, name: &str, select: Option<&str>) -> Result<Value, Box<Problem>> {
        let path = self.path(name);
        let pointer = format!("/cases/{at}/file");
        let fail = |message: String, hint: &str| Box::new(self.file.problem(self.test, &pointer, message, hint));
        let shown = path.display().to_string();
        let bytes = read_file(&path).map_err(|error| Box::new(self.unreadable(&pointer, &path, &error)))?;
        let text = String::from_utf8(bytes).map_err(|error| fail(format!("{shown}: {error}"), "save it as UTF-8"))?;
        let source = SourceText::new(shown.clone(), text);
        let mut found: Vec<(String, Value)> = Vec::new();
        let mut broken = None;
        // The closure never fails.
        let _broken_documents = ManifestFile::new(&source).each(|document| {
            match document {
                Ok(parsed) => found.extend(parsed.objects().filter_map(|object| {
                    let workload = object.workload()?;
                    let name = workload.object.name.as_deref().unwrap_or_default();
                    Some((format!("{}/{name}", workload.kind.name()), workload.object.value.clone()))
                })),
                Err(failure) => broken = broken.take().or(Some(failure)),
            }
            Ok(())
        });
        if let Some(failure) = broken {
            return Err(fail(failure.to_string(), "correct the manifest"));
        }
        let names = list(found.iter().map(|(name, _)| name));
        let wanted = |(name, _): &(String, Value)| select.is_none_or(|select| select == name);
        let mut chosen: Vec<Value> =
            found.iter().filter(|found| wanted(found)).map(|(_, object)| object.clone()).collect();
        match (chosen.pop(), chosen.is_empty(), select) {
            (Some(object), true, _) => Ok(object),
            (None, _, _) if found.is_empty() => {
                Err(fail(format!("{shown} contains no pod and no object with a pod template"), "name another file"))
            }
            (None, _, select) => {
                let message = format!("{shown} contains no {}", select.unwrap_or_default());
                Err(fail(message, &format!("it contains {names}")))
            }
            (Some(_), false, Some(select)) => {
                Err(fail(format!("{shown} contains {select} more than once"), "move one of them to a file of its own"))
            }
            (Some(_), false, None) => {
                Err(fail(format!("{shown} contains several objects: {names}"), "select one: `select: Kind/name`"))
            }
        }
    }
}

/// A node with the labels that its kubelet and its cloud provider set.
fn node(spec: &NodeFixture) -> Value {
    let mut labels: BTreeMap<&str, String> = BTreeMap::from([
        (OS_LABEL, spec.os.name().to_owned()),
        ("kubernetes.io/arch", "amd64".to_owned()),
        ("kubernetes.io/hostname", spec.name.clone()),
    ]);
    labels.extend(spec.build.map(|build| (WINDOWS_BUILD_LABEL, build.to_string())));
    labels.extend(spec.labels.iter().map(|(key, value)| (key.as_str(), value.clone())));
    let taints = spec.taints.iter().filter_map(|taint| Taint::parse(taint));
    let taints: Vec<Value> =
        taints.map(|taint| json!({"key": taint.key, "value": taint.value, "effect": taint.effect})).collect();
    json!({"kind": "Node", "metadata": {"name": spec.name, "labels": labels}, "spec": {"taints": taints}})
}

impl LoadedTest<'_> {
    /// Runs a case.
    pub(crate) fn case(&mut self, at: usize) -> Result<CaseResult, Box<Problem>> {
        let Loader { file, test } = self.loader;
        let Some(case) = test.spec.cases.get(at) else {
            return Ok(CaseResult { name: String::new(), line: 0, failures: Vec::new() });
        };
        let object = self.loader.object(at, case)?;
        let text = |pointer: &str| object.pointer(pointer).and_then(Value::as_str);
        let kind = text("/kind").and_then(WorkloadKind::from_name).unwrap_or(WorkloadKind::Pod);
        let namespace = text("/metadata/namespace").or(case.namespace_name()).unwrap_or("default").to_owned();
        let before = self.enter(&namespace, case);
        let request = ReviewRequest::creation(WorkloadObject { kind, namespace: &namespace, object: &object });
        let reviewed = review_object(&request, &self.snapshot, &self.policies);
        match before {
            Some(before) => self.snapshot.namespaces.insert(namespace.clone(), before),
            None => self.snapshot.namespaces.remove(&namespace),
        };
        let line = |key: &str| file.line(test, &format!("/cases/{at}/expect/{}", escape(key)));
        let failures = compare(&case.expect, &reviewed, &line);
        Ok(CaseResult { name: lines::one_line(&case.name), line: file.line(test, &format!("/cases/{at}")), failures })
    }

    /// Adds the case's namespace to the snapshot; returns the one that it replaces.
    fn enter(&mut self, name: &str, case: &TestCase) -> Option<Namespace> {
        let before = self.snapshot.namespaces.get(name).cloned();
        let mut namespace = before.clone().unwrap_or_default();
        if let Some(ShortForm::Full(NamespaceSpec { labels, annotations, .. })) = &case.namespace {
            namespace.labels = labels.clone().unwrap_or(namespace.labels);
            if let Some(annotations) = annotations {
                namespace.set_annotations(annotations);
            }
        }
        // The API server sets this label.
        namespace.labels.insert("kubernetes.io/metadata.name".to_owned(), name.to_owned());
        self.snapshot.namespaces.insert(name.to_owned(), namespace);
        before
    }
}
