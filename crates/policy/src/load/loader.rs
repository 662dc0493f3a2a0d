//! Policy files to a [`PolicySet`], or to every problem they have.

use std::collections::BTreeMap;
use std::collections::btree_map::Entry as MapEntry;
use std::sync::Arc;

use mullion_engine::model::settings::node_settings::NodeSettings;
use mullion_engine::model::settings::origin::Origin;
use mullion_engine::model::text::shown;
use mullion_manifest::document::{Documents, text_from_bytes};
use mullion_manifest::node::Node;
use mullion_manifest::problem::{Problem, Related};
use mullion_manifest::span::{LineColumn, LineIndex, Span};
use serde::Deserialize as _;
use serde_json::Error;

use crate::documents::PodPolicy;
use crate::keys::{NODE_KEYS, POD_KEYS};
use crate::load::check::{Checker, MAX_PROBLEMS, Places, problem};
use crate::load::disputes::{Dispute, disputes};
use crate::load::overlaps::Overlaps;
use crate::policy_file::{MAX_FILE, PolicyDocument, PolicyFile, PolicyFiles};
use crate::policy_set::PolicySet;
use crate::registry_policy::RegistryPolicy;

/// Most policies for pods in a set: each review asks every one of them whether it matches.
pub const MAX_POLICIES: usize = 1000;

/// What holds without policy files, as a file: its name, and its text.
pub const BUILT_IN: (&str, &str) = ("built-in default.yaml", include_str!("../../../../policies/default.yaml"));

impl PolicySet {
    /// What holds without policy files, for every command: `policies/default.yaml`, which the program carries.
    pub fn built_in() -> Self {
        // It is part of the program, and a test loads it.
        Self { files: Arc::default(), ..Self::from_files(&[BUILT_IN]).unwrap_or_default() }
    }

    /// Reads files given as name and contents, in any order. Fails with every problem of every file, in order of file
    /// and place.
    pub fn from_files<N: AsRef<str>, B: AsRef<[u8]>>(files: &[(N, B)]) -> Result<Self, Vec<Problem>> {
        let texts = files
            .iter()
            .map(|(name, bytes)| PolicyFile { name: name.as_ref().to_owned(), bytes: bytes.as_ref().to_owned() });
        Self::load(&PolicyFiles { texts: texts.collect(), problems: Vec::new() })
    }

    /// As [`from_files`](Self::from_files), for files that may not all have been readable.
    pub fn load(files: &PolicyFiles) -> Result<Self, Vec<Problem>> {
        let mut texts: Vec<_> = files.texts.iter().collect();
        texts.sort_unstable();
        let mut loader = Loader { problems: files.problems.clone(), ..Loader::default() };
        if texts.is_empty() && files.problems.is_empty() {
            let hint = "policies/default.yaml is a good start";
            loader.problems.push(Problem::of_file("policies", "there is no policy file", hint));
        }
        for file in texts {
            loader.file(file);
        }
        loader.pods.sort_by(|a, b| (b.policy.priority, &a.policy.name).cmp(&(a.policy.priority, &b.policy.name)));
        if loader.pods.len() > MAX_POLICIES {
            loader.too_many();
        } else {
            loader.collisions();
        }
        if loader.problems.is_empty() {
            Ok(Self {
                pods: loader.pods.into_iter().map(|pod| pod.policy).collect(),
                nodes: loader.nodes.map_or_else(NodeSettings::default, |(policy, _)| policy),
                registries: loader.registries.map_or_else(RegistryPolicy::default, |(policy, _)| policy),
                node_origins: loader.node_origins,
                registry_origins: loader.registry_origins,
                documents: loader.documents.into(),
                hash: files.hash(),
                files: files.texts.as_slice().into(),
                ..Self::default()
            })
        } else {
            // What is about a whole file comes last of it.
            let order = |problem: &Problem| (problem.line == 0, problem.span.start);
            loader.problems.sort_by(|a, b| a.source.cmp(&b.source).then_with(|| order(a).cmp(&order(b))));
            Err(loader.problems)
        }
    }
}

#[derive(Default)]
struct Loader<'f> {
    problems: Vec<Problem>,
    pods: Vec<Loaded<'f>>,
    nodes: Option<(NodeSettings, Place<'f>)>,
    registries: Option<(RegistryPolicy, Place<'f>)>,
    names: BTreeMap<(&'static str, String), Place<'f>>,
    documents: Vec<PolicyDocument>,
    node_origins: Origins,
    registry_origins: Origins,
}

/// Line of each key that is set, the document itself under the empty path.
type Origins = BTreeMap<String, Origin>;

/// A stretch of a file.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
struct Place<'f> {
    file: &'f PolicyFile,
    span: Span,
}

impl Place<'_> {
    /// As the second place of a problem. The lines are counted again, which only bad files pay for.
    fn related(self, what: impl Into<String>) -> Related {
        let text = std::str::from_utf8(&self.file.bytes).unwrap_or_default();
        let LineColumn { line, column } = LineIndex::new(text).line_column(self.span.start);
        Related { source: self.file.name.clone(), what: what.into(), span: self.span, line, column }
    }
}

/// A PodPolicy, and where its keys are to the byte.
struct Loaded<'f> {
    policy: PodPolicy,
    file: &'f PolicyFile,
    /// Of its name.
    place: Span,
    places: Places,
}

impl<'f> Loader<'f> {
    fn file(&mut self, file: &'f PolicyFile) {
        let bytes = &file.bytes;
        if bytes.len() > MAX_FILE {
            // How large it is is not known: no more of it is read than tells that it is too large.
            let message =
                format!("the file has more than {} MiB, the most that a policy file may have", MAX_FILE >> 20);
            let hint = "check that it is a policy file, and spread its policies over several files";
            self.problems.push(Problem::of_file(&file.name, message, hint));
            return;
        }
        let text = match text_from_bytes(&file.name, bytes) {
            Ok(text) => text,
            Err(problem) => return self.problems.push(*problem),
        };
        // Every other byte of UTF-16 is 0 where text is Latin.
        if matches!(bytes.as_slice(), [0, _, 0, ..] | [_, 0, _, 0, ..]) {
            self.problems.push(Problem::of_file(&file.name, "the file is UTF-16", "save it as UTF-8"));
            return;
        }
        let mut checker = Checker::new(&file.name, text);
        if let Some(at) = text.find('\0') {
            checker
                .report(Span::new(at, at + 1), "this is a zero byte, which no text holds")
                .hint("the file is binary or damaged: write it again, or remove it");
            self.problems.append(&mut checker.problems);
            return;
        }
        if let Some((at, c)) = text.char_indices().find(|(_, c)| misleading(*c).is_some()) {
            checker
                .report(
                    Span::new(at, at + c.len_utf8()),
                    format!("this is U+{:04X}, which {}", u32::from(c), misleading(c).unwrap_or_default()),
                )
                .hint("remove it, or write it as an escape in double quotes");
        }
        let mut documents = Documents::new(&file.name, text).nodes().peekable();
        if documents.peek().is_none() {
            checker.report(Span::empty(0), "the file holds no policy").hint("write one, or remove the file");
        }
        for document in documents {
            match document {
                Ok(document) => self.document(&mut checker, file, &document),
                Err(problem) => checker.take(problem),
            }
            if checker.problems.len() > MAX_PROBLEMS {
                break;
            }
        }
        self.problems.append(&mut checker.problems);
    }

    fn document(&mut self, checker: &mut Checker<'_>, file: &'f PolicyFile, document: &Node) {
        let Some((kind, places)) = checker.document(document) else { return };
        let name = document.at_pointer("/metadata/name");
        let span = name.map_or(document.span, |name| name.span);
        let name = name.and_then(|name| name.as_str()).unwrap_or_default().to_owned();
        let file_name: Arc<str> = file.name.as_str().into();
        let origin =
            |span: Span, checker: &Checker<'_>| Origin { file: Arc::clone(&file_name), line: checker.line(span) };
        let place = Place { file, span };
        let whole = origin(document.span, checker);
        self.documents.push(PolicyDocument { kind, name: name.clone(), origin: whole.clone() });
        let mut origins: Origins = places.iter().map(|(key, span)| (key.clone(), origin(*span, checker))).collect();
        origins.insert(String::new(), whole);
        let spec = document.get("spec").map_or(document, |spec| &spec.value);
        match kind {
            "NodePolicy" => {
                self.node_origins = origins;
                let nodes = node_settings(spec, &|node| origin(node.span, checker));
                return only(&mut self.nodes, kind, checker, document, place, nodes);
            }
            "RegistryPolicy" => {
                self.registry_origins = origins;
                return only(&mut self.registries, kind, checker, document, place, RegistryPolicy::deserialize(spec));
            }
            _ => {}
        }
        match self.names.entry((kind, name.clone())) {
            MapEntry::Occupied(first) => {
                checker
                    .report(span, format!("there is a second {kind} `{name}`"))
                    .related(first.get().related("the first is"))
                    .hint("give one of them another name, or remove one");
                return;
            }
            MapEntry::Vacant(free) => {
                free.insert(place);
            }
        }
        let policy = PodPolicy::read(name, spec, origins, &|node| origin(node.span, checker));
        let policy = readable(checker, document, policy);
        self.pods.extend(policy.map(|policy| Loaded { policy, file, place: span, places }));
    }

    /// Reports the first policy beyond those that are taken, in order of file and line.
    fn too_many(&mut self) {
        let count = self.pods.len();
        let places = self.pods.iter().map(|pod| Place { file: pod.file, span: pod.place });
        let mut places: Vec<_> = places.collect();
        places.sort_unstable();
        if let Some(Place { file, span }) = places.get(MAX_POLICIES) {
            let message =
                format!("there are {count} PodPolicies, and at most {MAX_POLICIES} are taken: this is one too many");
            let text = std::str::from_utf8(&file.bytes).unwrap_or_default();
            self.problems.push(Problem {
                hint: Some("merge policies that differ only in their namespaces".to_owned()),
                ..problem(&file.name, &LineIndex::new(text), *span, message)
            });
        }
    }

    /// Reports keys that two policies of one priority set for the same workloads: neither could be told to decide.
    fn collisions(&mut self) {
        // Lists are laid together.
        let keys = POD_KEYS.iter().filter(|key| key.field.list.is_none());
        let keys: Vec<&str> = keys.map(|key| key.name.as_str()).collect();
        let mut found = Vec::new();
        for group in self.pods.chunk_by(|a, b| a.policy.priority == b.policy.priority) {
            let said = group.iter().map(|loaded| (&loaded.policy.matches.namespaces, &loaded.places));
            let overlaps = Overlaps::of(said, &keys);
            let policies = group.iter().map(|loaded| &loaded.policy);
            let disputes = disputes(policies, MAX_PROBLEMS.saturating_sub(found.len()));
            found.extend(disputes.iter().filter_map(|dispute| disputed(dispute, group)));
            for (at, one) in group.iter().enumerate() {
                for other in overlaps.after(at).filter_map(|other| group.get(other)) {
                    found.extend(keys.iter().filter_map(|key| collision(key, one, other)));
                    if found.len() >= MAX_PROBLEMS {
                        let message = "more policies of equal priority set the same keys, and they are not listed";
                        found.push(Problem::of_file(&one.file.name, message, "correct these and look again"));
                        self.problems.extend(found);
                        return;
                    }
                }
            }
        }
        self.problems.extend(found);
    }
}

/// Why a person may read another file than Mullion does, where that character stands.
fn misleading(c: char) -> Option<&'static str> {
    match c {
        '\u{202a}'..='\u{202e}' | '\u{2066}'..='\u{2069}' => {
            Some("shows the text behind it in another order than it is read")
        }
        // YAML 1.1 ends a line there, and so do editors; YAML 1.2 does not.
        '\u{85}' | '\u{2028}' | '\u{2029}' => Some("looks like the end of the line and is none"),
        _ => None,
    }
}

/// Takes a policy of a kind of which there may be one.
fn only<'f, T>(
    taken: &mut Option<(T, Place<'f>)>,
    kind: &str,
    checker: &mut Checker<'_>,
    document: &Node,
    place: Place<'f>,
    policy: Result<T, Error>,
) {
    if let Some((_, first)) = taken {
        checker
            .report(place.span, format!("there is a second {kind}, and there may be only one"))
            .related(first.related("the first is"))
            .hint("put what both say into one document, and remove the other");
    } else if let Some(policy) = readable(checker, document, policy) {
        *taken = Some((policy, place));
    }
}

fn disputed(dispute: &Dispute<'_>, group: &[Loaded<'_>]) -> Option<Problem> {
    let place = |(at, line): (usize, u32)| {
        let Loaded { policy, file, .. } = group.get(at)?;
        Some((Place { file, span: file.line(line) }, policy))
    };
    let what = format!("say different things of `{}` in `spec.{}`", shown(dispute.about), dispute.list);
    Some(undecided([place(dispute.one)?, place(dispute.other)?], &what, "says"))
}

fn collision<'f>(key: &str, one: &Loaded<'f>, other: &Loaded<'f>) -> Option<Problem> {
    let place = |loaded: &Loaded<'f>| Some(Place { file: loaded.file, span: loaded.places.get(key).copied()? });
    let both = [(place(one)?, &one.policy), (place(other)?, &other.policy)];
    Some(undecided(both, &format!("both set `spec.{key}`"), "sets"))
}

/// Two policies of one priority do `what`, which each `does` at its place, and neither could decide.
fn undecided(mut both: [(Place<'_>, &PodPolicy); 2], what: &str, does: &str) -> Problem {
    both.sort_by_key(|(place, _)| *place);
    let [(first, early), (Place { file, span }, late)] = both;
    let text = std::str::from_utf8(&file.bytes).unwrap_or_default();
    let message = format!(
        "PodPolicies `{}` and `{}` {what}, and both have priority {}: neither could decide",
        late.name, early.name, early.priority
    );
    let hint = "give one of them another `priority`, 0 where it is absent, or let match.namespaces.include of both name different namespaces without `*`";
    Problem {
        related: Some(first.related(format!("`{}` {does} it", early.name))),
        hint: Some(hint.to_owned()),
        ..problem(&file.name, &LineIndex::new(text), span, message)
    }
}

fn node_settings(spec: &Node, place: &dyn Fn(&Node) -> Origin) -> Result<NodeSettings, Error> {
    let mut nodes = NodeSettings::default();
    for key in NODE_KEYS.iter() {
        key.read(&mut nodes, spec, place)?;
    }
    Ok(nodes)
}

/// What the walk let through, as its type. A failure here is a gap in the schema, and still no panic.
fn readable<T>(checker: &mut Checker<'_>, document: &Node, policy: Result<T, Error>) -> Option<T> {
    policy
        .inspect_err(|error| {
            checker.report(document.span, format!("`spec` cannot be read: {error}"));
        })
        .ok()
}

#[cfg(test)]
mod tests;
