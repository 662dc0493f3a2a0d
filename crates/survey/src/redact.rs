//! Replaces names in a report: of objects, namespaces, nodes, pools, images, contexts and managers.
//!
//! A name gets the same replacement everywhere: `namespace-1`, `node-17`, `deployment-3`. Members that contain a name
//! get the replacement of that kind of name. All other texts are searched for names as whole words, where letters and
//! digits make a word, so that `web-7d9f8-x2x7p` of a ReplicaSet that is not in the report becomes
//! `deployment-3-7d9f8-x2x7p`. Everything that is not known to be free of names is searched, so a member that is added
//! later is redacted as well.

use std::collections::{HashMap, HashSet};

use serde_json::Value;

use crate::report::SurveyReport;

/// The registry of Microsoft: its repositories are public, and a report without them explains nothing.
const MICROSOFT: &str = "mcr.microsoft.com";

/// Words of the reports' own sentences. An object with such a name is replaced if a member or the word before it shows
/// that the object is meant. Elsewhere the word reveals nothing about the cluster.
const COMMON_WORDS: [&str; 62] = [
    "a",
    "all",
    "an",
    "and",
    "app",
    "apps",
    "are",
    "as",
    "at",
    "be",
    "build",
    "builds",
    "but",
    "by",
    "can",
    "container",
    "containers",
    "default",
    "dump",
    "event",
    "events",
    "field",
    "for",
    "from",
    "has",
    "have",
    "host",
    "image",
    "images",
    "in",
    "is",
    "it",
    "its",
    "job",
    "jobs",
    "linux",
    "name",
    "namespace",
    "namespaces",
    "no",
    "node",
    "nodes",
    "not",
    "of",
    "on",
    "or",
    "other",
    "pod",
    "pods",
    "pool",
    "pools",
    "release",
    "run",
    "runs",
    "spec",
    "status",
    "that",
    "the",
    "this",
    "to",
    "windows",
    "workload",
];

/// Names of labels and of Microsoft's registry, whose parts are not names of the cluster.
const PUBLIC: [&str; 9] = [
    "kubernetes.io/os",
    "kubernetes.io/arch",
    "kubernetes.io/hostname",
    "node.kubernetes.io/windows-build",
    "node.kubernetes.io",
    "windows-build",
    "node-role.kubernetes.io",
    "mullion.dev",
    MICROSOFT,
];

/// Values that never contain a name, by the key that holds them.
const KEPT: [&str; 20] = [
    "schema",
    "source",
    "takenAt",
    "mullion",
    "kubernetes",
    "today",
    "datesAsOf",
    "kind",
    "declaredBy",
    "provider",
    "os",
    "release",
    "build",
    "builds",
    "kubelets",
    "runtimes",
    "code",
    "finding",
    "severity",
    "knownFrom",
];

/// The kind of a text in a report.
#[derive(Debug, Clone, PartialEq, Eq)]
enum Member {
    /// No name.
    Kept,
    /// A sentence or another text that may contain names.
    Text,
    /// A name; the value is the word before the number in its replacement.
    Name(String),
    /// An image reference.
    Image,
    /// `Helm release shop`: the last word is a name.
    Manager,
}

/// The replacements for the names in some reports.
#[derive(Debug)]
pub struct Redaction {
    /// Replacements by name: with the word of its kind, in the order of their first use.
    names: HashMap<String, Vec<Replacement>>,
    /// The number of replacements with each word.
    counts: HashMap<String, usize>,
    /// The names again, as a tree of words.
    tree: Vec<Branch>,
    /// Names of pools that are not names of the cluster: a pool without a name is named after its system or release.
    derived_pools: HashSet<String>,
}

#[derive(Debug)]
struct Replacement {
    word: String,
    text: String,
}

/// The words that can follow in the tree.
#[derive(Debug, Default)]
struct Branch {
    next: HashMap<String, usize>,
    /// A name ends here.
    ends: bool,
}

impl Redaction {
    /// Finds the names in the reports. Reports that are compared need one redaction for both.
    pub fn of(reports: &[&SurveyReport]) -> Result<Self, serde_json::Error> {
        let pools = reports.iter().flat_map(|report| &report.pools);
        let derived = pools.filter(|pool| pool.name == pool.os || pool.release.as_ref() == Some(&pool.name));
        let declared = reports.iter().flat_map(|report| &report.pools_without_nodes);
        let declared = declared.filter(|pool| pool.release.as_ref() == Some(&pool.pool)).map(|pool| pool.pool.clone());
        let mut redaction = Self {
            names: HashMap::new(),
            counts: HashMap::new(),
            tree: vec![Branch::default()],
            derived_pools: derived.map(|pool| pool.name.clone()).chain(declared).collect(),
        };
        for public in PUBLIC {
            redaction.keep(public);
        }
        // Numbers follow the order of pools and workloads in the report.
        for report in reports {
            report.pools.iter().for_each(|pool| redaction.add("pool", &pool.name));
            for workload in &report.workloads {
                redaction.add("namespace", &workload.object.namespace);
                redaction.add(&workload.object.kind.to_lowercase(), &workload.object.name);
            }
        }
        for report in reports {
            let mut value = serde_json::to_value(report)?;
            visit(&mut value, "", &mut |member, text| redaction.collect(member, text));
        }
        Ok(redaction)
    }

    /// The report with replaced names.
    pub fn apply(&self, report: &SurveyReport) -> Result<SurveyReport, serde_json::Error> {
        let mut value = serde_json::to_value(report)?;
        visit(&mut value, "", &mut |member, text| {
            *text = match member {
                Member::Kept => return,
                Member::Text | Member::Manager => self.text(text),
                Member::Image => self.image(text),
                Member::Name(word) => self.named(&word, text).map_or_else(|| self.text(text), str::to_owned),
            }
        });
        let mut redacted: SurveyReport = serde_json::from_value(value)?;
        redacted.header.redacted = true;
        Ok(redacted)
    }

    fn collect(&mut self, member: Member, text: &str) {
        match member {
            Member::Kept | Member::Text => {}
            Member::Name(word) => self.add(&word, text),
            Member::Manager => {
                if let Some((_, name)) = text.rsplit_once(' ') {
                    self.add("release", name);
                }
            }
            Member::Image => self.add_image(text),
        }
    }

    fn add_image(&mut self, image: &str) {
        let (registry, path, _) = parts(image);
        if registry == Some(MICROSOFT) {
            self.keep(&format!("{MICROSOFT}/{path}"));
            return;
        }
        self.add("image", path);
        if let Some(registry) = registry {
            self.add("registry", registry);
        }
        // A message of a registry contains an organization or a project alone. Short parts, such as `app`, are words.
        for part in path.split('/').filter(|part| part.len() > 3 && *part != path) {
            self.add("path", part);
        }
    }

    fn add(&mut self, word: &str, name: &str) {
        if name.is_empty() || word == "pool" && self.derived_pools.contains(name) {
            return;
        }
        let replacements = self.names.entry(name.to_owned()).or_default();
        if replacements.iter().any(|one| one.word == word) {
            return;
        }
        let count = self.counts.entry(word.to_owned()).or_default();
        *count += 1;
        replacements.push(Replacement { word: word.to_owned(), text: format!("{word}-{count}") });
        self.plant(name);
    }

    /// Excludes a name from replacement.
    fn keep(&mut self, name: &str) {
        let kept = vec![Replacement { word: String::new(), text: name.to_owned() }];
        if self.names.insert(name.to_owned(), kept).is_none() {
            self.plant(name);
        }
    }

    fn plant(&mut self, name: &str) {
        let mut at = 0;
        for word in words(name) {
            let free = self.tree.len();
            let Some(branch) = self.tree.get_mut(at) else { return };
            at = *branch.next.entry(word.to_owned()).or_insert(free);
            if at == free {
                self.tree.push(Branch::default());
            }
        }
        if let Some(branch) = self.tree.get_mut(at) {
            branch.ends = true;
        }
    }

    fn named(&self, word: &str, name: &str) -> Option<&str> {
        let replacements = self.names.get(name)?;
        replacements.iter().find(|one| one.word == word).map(|one| one.text.as_str())
    }

    fn image(&self, image: &str) -> String {
        let (registry, path, tag) = parts(image);
        if registry == Some(MICROSOFT) {
            return format!("{MICROSOFT}/{path}{}", self.text(tag));
        }
        let registry = registry.map(|registry| format!("{}/", self.named("registry", registry).unwrap_or(registry)));
        format!("{}{}{}", registry.unwrap_or_default(), self.named("image", path).unwrap_or(path), self.text(tag))
    }

    /// The text with every name in it replaced; if several names begin at one place, the longest one.
    fn text(&self, text: &str) -> String {
        let words = words(text);
        let mut out = String::with_capacity(text.len());
        let mut at = 0;
        while let Some(word) = words.get(at) {
            if let Some((end, replacement)) = self.longest(&words, at) {
                out.push_str(replacement);
                at = end;
            } else {
                out.push_str(word);
                at += 1;
            }
        }
        out
    }

    /// The longest name that begins with that word: the word after it, and its replacement.
    fn longest(&self, words: &[&str], start: usize) -> Option<(usize, &str)> {
        let mut branch = self.tree.first()?;
        let mut found = None;
        for (at, word) in words.iter().enumerate().skip(start) {
            let Some(next) = branch.next.get(*word).and_then(|next| self.tree.get(*next)) else { break };
            branch = next;
            if branch.ends {
                found = Some(at + 1);
            }
        }
        let end = found?;
        let name: String = words.get(start..end)?.concat();
        let replacements = self.names.get(&name)?;
        let before = words.get(..start)?.iter().rev().find(|word| word.contains(char::is_alphanumeric));
        let before = before.map(|word| word.to_lowercase()).unwrap_or_default();
        let kind = before.strip_suffix('s').unwrap_or(&before);
        let of_kind = |kind: &str| replacements.iter().find(|one| one.word == kind);
        let meant = if words.get(end) == Some(&"/") { of_kind("namespace") } else { None }.or_else(|| of_kind(kind));
        if meant.is_none() && COMMON_WORDS.contains(&&*name) {
            return None;
        }
        meant.or(replacements.first()).map(|one| (end, one.text.as_str()))
    }
}

/// Registry, path, and tag or digest with its separator.
fn parts(image: &str) -> (Option<&str>, &str, &str) {
    let (name, _) = image.split_at(image.find('@').unwrap_or(image.len()));
    let last = name.rfind('/').map_or(0, |slash| slash + 1);
    let end = name.get(last..).and_then(|end| end.find(':')).map_or(name.len(), |colon| last + colon);
    let (name, tag) = image.split_at(end);
    match name.split_once('/') {
        Some((host, path)) if host.contains(['.', ':']) || host == "localhost" => (Some(host), path, tag),
        _ => (None, name, tag),
    }
}

/// The text as runs of letters and digits, and single other characters.
fn words(text: &str) -> Vec<&str> {
    let mut words = Vec::new();
    let mut rest = text;
    while let Some(first) = rest.chars().next() {
        let end = if first.is_alphanumeric() {
            rest.find(|c: char| !c.is_alphanumeric()).unwrap_or(rest.len())
        } else {
            first.len_utf8()
        };
        let (word, after) = rest.split_at(end);
        words.push(word);
        rest = after;
    }
    words
}

/// Calls `each` for every text of a report. `parent` is the key that contains the value.
fn visit(value: &mut Value, parent: &str, each: &mut impl FnMut(Member, &mut String)) {
    match value {
        Value::Array(items) => items.iter_mut().for_each(|item| visit(item, parent, each)),
        Value::Object(members) => {
            let text = |key: &str| members.get(key).and_then(Value::as_str).unwrap_or_default().to_owned();
            let kind = text("kind").to_lowercase();
            for (key, value) in members {
                let member = match key.as_str() {
                    "name" if parent == "pools" => Member::Name("pool".to_owned()),
                    "name" if parent == "containers" => Member::Name("container".to_owned()),
                    "name" if parent == "imageVolumes" => Member::Name("volume".to_owned()),
                    "name" if !kind.is_empty() => Member::Name(kind.clone()),
                    key if KEPT.contains(&key) => Member::Kept,
                    "findings" if parent == "workloads" => Member::Kept,
                    "namespace" => Member::Name("namespace".to_owned()),
                    "cluster" => Member::Name("cluster".to_owned()),
                    "pod" => Member::Name("pod".to_owned()),
                    "pool" | "pools" => Member::Name("pool".to_owned()),
                    "nodes" => Member::Name("node".to_owned()),
                    "image" => Member::Image,
                    "managedBy" => Member::Manager,
                    _ => Member::Text,
                };
                visit_member(value, key, &member, each);
            }
        }
        _ => {}
    }
}

fn visit_member(value: &mut Value, key: &str, member: &Member, each: &mut impl FnMut(Member, &mut String)) {
    match value {
        Value::String(text) => each(member.clone(), text),
        Value::Array(items) => items.iter_mut().for_each(|item| visit_member(item, key, member, each)),
        _ => visit(value, key, each),
    }
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used, clippy::indexing_slicing, reason = "tests")]

    use serde_json::{Value, json};

    use super::*;
    use crate::report::SCHEMA;

    fn redacted(workloads: &Value, findings: &Value) -> Value {
        let report: SurveyReport = serde_json::from_value(json!({
            "schema": SCHEMA,
            "header": {
                "cluster": "prod-eu", "source": "cluster", "takenAt": null, "mullion": "0.1.0", "kubernetes": "v1.33.4",
                "today": "2026-11-23", "datesAsOf": "2026-11-01", "redacted": false,
            },
            "coverage": {"read": [{"kind": "pods", "objects": 3}], "unread": []},
            "summary": ["Pool win19 of prod-eu has 3 nodes with pods of shop/web."],
            "pools": [{
                "name": "linux", "provider": null, "os": "linux", "release": null, "build": null, "revisions": [], "kubelets": [],
                "runtimes": [], "taints": [], "nodes": 1, "ready": 1, "cordoned": 0, "windowsPods": 0, "otherPods": 0,
                "misplacedPods": 0, "ends": [],
            }],
            "imageBuilds": [], "workloads": workloads, "findings": findings,
            "daemonSets": [], "changes": [], "deadlines": [], "unknown": [],
        }))
        .unwrap();
        let redacted = Redaction::of(&[&report]).unwrap().apply(&report).unwrap();
        serde_json::to_value(redacted).unwrap()
    }

    fn workload(namespace: &str, name: &str, image: &str) -> Value {
        json!({
            "namespace": namespace, "kind": "Deployment", "name": name, "os": "windows",
            "because": format!("image {image} indicates windows"),
            "containers": [{"name": "main", "image": image, "builds": ["10.0.20348"], "knownFrom": "name"}],
            "imageVolumes": [{"name": "fonts", "image": image, "builds": [], "knownFrom": "unknown"}],
            "pods": 1, "ready": 1, "pools": ["win19", "linux"], "managedBy": "Helm release shop-release", "findings": ["SUR201"],
        })
    }

    #[test]
    fn names_get_the_same_replacement_everywhere() {
        let finding = json!({
            "code": "SUR201", "finding": "image-build-mismatch", "severity": "problem", "namespace": "shop", "kind": "Deployment",
            "name": "web", "path": "Pod web-7d9f8-x2x7p: status.containerStatuses[0]", "pod": "web-7d9f8-x2x7p",
            "message": "Deployment shop/web needs a node of pool win19; namespace web is another. The node is windows.",
            "action": "Use kubernetes.io/os and node.kubernetes.io/windows-build.",
            "raw": "Failed to pull image \"registry.corp.example:5000/team-a/web:1.4-web\": web-7d9f8-zzzzz_shop(uid) team-a denied",
            "pods": 1, "nodes": ["windows"],
        });
        let image = "registry.corp.example:5000/team-a/web:1.4-web";
        let workloads =
            json!([workload("shop", "web", image), workload("web", "shop", "mcr.microsoft.com/windows/web:ltsc2022")]);
        let report = redacted(&workloads, &json!([finding]));
        let at = |pointer: &str| report.pointer(pointer).unwrap().as_str().unwrap().to_owned();
        assert_eq!(report["header"]["redacted"], true);
        assert_eq!(at("/header/cluster"), "cluster-1");
        assert_eq!(at("/summary/0"), "Pool pool-1 of cluster-1 has 3 nodes with pods of namespace-1/deployment-1.");
        assert_eq!(at("/pools/0/name"), "linux", "no name of the cluster");
        assert_eq!(report["workloads"][0]["pools"], json!(["pool-1", "linux"]));
        assert_eq!(at("/workloads/0/managedBy"), "Helm release release-1");
        assert_eq!(at("/workloads/0/containers/0/name"), "container-1");
        assert_eq!(at("/workloads/0/containers/0/image"), "registry-1/image-1:1.4-deployment-1");
        assert_eq!(at("/workloads/0/imageVolumes/0/name"), "volume-1");
        assert_eq!(at("/workloads/0/imageVolumes/0/image"), "registry-1/image-1:1.4-deployment-1");
        assert_eq!(at("/workloads/0/because"), "image registry-1/image-1:1.4-deployment-1 indicates windows");
        assert_eq!(at("/workloads/1/containers/0/image"), "mcr.microsoft.com/windows/web:ltsc2022");
        assert_eq!(at("/workloads/1/because"), "image mcr.microsoft.com/windows/web:ltsc2022 indicates windows");
        assert_eq!(at("/workloads/1/namespace"), "namespace-2");
        assert_eq!(at("/findings/0/path"), "Pod pod-1: status.containerStatuses[0]");
        assert_eq!(
            at("/findings/0/message"),
            "Deployment namespace-1/deployment-1 needs a node of pool pool-1; namespace namespace-2 is another. The node is windows."
        );
        assert_eq!(at("/findings/0/action"), "Use kubernetes.io/os and node.kubernetes.io/windows-build.");
        assert_eq!(
            at("/findings/0/raw"),
            "Failed to pull image \"registry-1/image-1:1.4-deployment-1\": deployment-1-7d9f8-zzzzz_namespace-1(uid) path-1 denied"
        );
        assert_eq!(
            report["findings"][0]["nodes"],
            json!(["node-1"]),
            "a node may have the name of an operating system"
        );
        assert_eq!(at("/findings/0/code"), "SUR201");
    }

    #[test]
    fn parts_of_image_references() {
        let cases = [
            ("nginx", (None, "nginx", "")),
            ("nginx:1.27", (None, "nginx", ":1.27")),
            ("team/app@sha256:00", (None, "team/app", "@sha256:00")),
            ("localhost/app", (Some("localhost"), "app", "")),
            ("host:5000/a/b:1@sha256:00", (Some("host:5000"), "a/b", ":1@sha256:00")),
            ("registry.example/a", (Some("registry.example"), "a", "")),
            ("", (None, "", "")),
        ];
        for (image, expected) in cases {
            assert_eq!(parts(image), expected, "{image}");
        }
    }
}
