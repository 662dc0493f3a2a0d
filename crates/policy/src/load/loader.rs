//! The loader of policy files: a [`PolicySet`], or all problems of the files.

use std::cmp::Reverse;
use std::collections::btree_map::Entry as MapEntry;
use std::collections::{BTreeMap, BTreeSet};
use std::sync::{Arc, LazyLock};

use mullion_engine::model::schema::PolicyKey;
use mullion_engine::model::settings::{NODE_KEYS, NodeSettings, Origin, POD_KEYS};
use mullion_engine::model::text::shown;
use mullion_manifest::{
    LineIndex, ManifestDocuments, ManifestNode, NodeValue, Problem, Related, Span, text_from_bytes,
};
use serde::Deserialize as _;
use serde_json::Error;

use crate::documents::{PodPolicy, PodPolicyScope};
use crate::load::check::{Checker, MAX_PROBLEMS, SpecEntries};
use crate::load::disputes::{Dispute, find_disputes};
use crate::load::overlaps::Overlaps;
use crate::policy_file::{MAX_FILE, PolicyDocument, PolicyFile, PolicyFiles};
use crate::policy_set::PolicySet;
use crate::registry_policy::RegistryPolicy;

/// The maximum number of policies for pods in a set. There is a limit because each review compares the workload with
/// all of them.
pub const MAX_POLICIES: usize = 1000;

/// The built-in policy file: its name and its text.
pub const BUILT_IN: (&str, &str) = ("built-in default.yaml", include_str!("../../../../policies/default.yaml"));

/// The name of the policy in [`BUILT_IN`] that is below every priority.
const LOWEST: &str = "default";

static BUILT_IN_SET: LazyLock<PolicySet> = LazyLock::new(|| {
    let (name, text) = BUILT_IN;
    let texts = vec![PolicyFile { name: name.to_owned(), bytes: text.into() }];
    // A test loads this file, so loading it does not fail.
    let mut set = PolicySet::load_alone(&PolicyFiles { texts, problems: Vec::new() }).unwrap_or_default();
    set.files = Arc::default();
    for policy in &mut set.pods {
        policy.built_in = true;
        if policy.name == LOWEST {
            policy.priority = None;
        }
    }
    set.order();
    set
});

impl PolicySet {
    /// The set without policy files, for every command: `policies/default.yaml`, which is part of the program. Policies
    /// of files are also merged over it, see [`load`](Self::load).
    pub fn built_in() -> Self {
        BUILT_IN_SET.clone()
    }

    /// Reads files given as name and contents, in any order. Returns all problems of all files, in order of file and
    /// place.
    pub fn from_files<N: AsRef<str>, B: AsRef<[u8]>>(files: &[(N, B)]) -> Result<Self, Vec<Problem>> {
        let texts = files
            .iter()
            .map(|(name, bytes)| PolicyFile { name: name.as_ref().to_owned(), bytes: bytes.as_ref().to_owned() });
        Self::load(&PolicyFiles { texts: texts.collect(), problems: Vec::new() })
    }

    /// Does the same as [`from_files`](Self::from_files), for files of which some could not be read.
    ///
    /// The built-in policies are below those of the files: the PodPolicy `default` below every priority, the PodPolicy
    /// `kube-system` with its priority unless a file contains one of that name, and the NodePolicy and the
    /// RegistryPolicy key by key.
    ///
    /// The set includes exemptions that have ended: see [`at`](Self::at).
    pub fn load(files: &PolicyFiles) -> Result<Self, Vec<Problem>> {
        let mut set = Self::load_alone(files)?;
        // Absent keys already have the values of the built-in policies: a test compares them with the defaults.
        for (origins, built_in) in [
            (&mut set.node_origins, &BUILT_IN_SET.node_origins),
            (&mut set.registry_origins, &BUILT_IN_SET.registry_origins),
        ] {
            for (key, origin) in built_in {
                origins.entry(key.clone()).or_insert_with(|| origin.clone());
            }
        }
        set.add_built_in();
        Ok(set)
    }

    /// The same set at `now`, in seconds since 1970: without the policies whose `until` has passed. A policy that has
    /// ended no longer replaces a built-in policy.
    #[must_use]
    pub fn at(&self, now: i64) -> Self {
        let mut set = self.clone();
        let all = set.pods.drain(..).filter(|policy| !policy.built_in).chain(set.ended.drain(..)).collect::<Vec<_>>();
        let has_ended = |policy: &PodPolicy| policy.until.as_ref().is_some_and(|until| until.end <= now);
        (set.ended, set.pods) = all.into_iter().partition(has_ended);
        set.add_built_in();
        set
    }

    /// Adds the built-in policies that no other replaces.
    fn add_built_in(&mut self) {
        let is_replaced = |built_in: &PodPolicy| {
            built_in.priority.is_some() && self.pods.iter().any(|policy| policy.name == built_in.name)
        };
        let built_in: Vec<_> = BUILT_IN_SET.pods.iter().filter(|policy| !is_replaced(policy)).cloned().collect();
        self.pods.extend(built_in);
        self.order();
    }

    /// Sorts the policies by precedence. At equal priority a policy of a file comes before a built-in one, so that an
    /// upgrade never makes a good file collide with the program.
    fn order(&mut self) {
        let key = |policy: &PodPolicy| (Reverse(policy.priority), policy.built_in);
        self.pods.sort_by(|a, b| key(a).cmp(&key(b)).then_with(|| a.name.cmp(&b.name)));
    }

    /// The policies of the files without the built-in policies.
    fn load_alone(files: &PolicyFiles) -> Result<Self, Vec<Problem>> {
        let mut texts: Vec<_> = files.texts.iter().collect();
        texts.sort_unstable();
        let mut loader = Loader { problems: files.problems.clone(), ..Loader::default() };
        if texts.is_empty() && files.problems.is_empty() {
            let hint = "write one with the keys that differ from the built-in policies";
            loader.problems.push(Problem::of_file("policies", "there is no policy file", hint));
        }
        for file in texts {
            loader.load_file(file);
        }
        loader.pods.sort_by(|a, b| (b.policy.priority, &a.policy.name).cmp(&(a.policy.priority, &b.policy.name)));
        if loader.pods.len() > MAX_POLICIES {
            loader.report_too_many();
        } else {
            loader.report_collisions();
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
            // Problems of a whole file come after its other problems.
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

/// The origin of each key that is set, and of the document itself under the empty path.
type Origins = BTreeMap<String, Origin>;

/// A span of a file.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
struct Place<'f> {
    file: &'f PolicyFile,
    span: Span,
}

impl Place<'_> {
    /// The place as the second place of a problem.
    fn related(self, what: impl Into<String>) -> Related {
        Related::at(&self.file.name, &self.lines(), self.span, what)
    }

    fn problem(self, message: String) -> Problem {
        Problem::at(&self.file.name, &self.lines(), self.span, message)
    }

    /// The lines are counted again for each problem, which costs time only for bad files.
    fn lines(&self) -> LineIndex<'_> {
        LineIndex::new(std::str::from_utf8(&self.file.bytes).unwrap_or_default())
    }
}

/// A PodPolicy, with the spans of its keys.
struct Loaded<'f> {
    policy: PodPolicy,
    /// The place of its name.
    place: Place<'f>,
    /// The key `spec`.
    spec: Span,
    places: BTreeMap<String, Span>,
}

impl<'f> Loader<'f> {
    fn load_file(&mut self, file: &'f PolicyFile) {
        let bytes = &file.bytes;
        if bytes.len() > MAX_FILE {
            // Its size is not known: it is read only as far as necessary to find that it is too large.
            let message = format!("the file is larger than {} MiB, the limit for a policy file", MAX_FILE >> 20);
            let hint = "check that it is a policy file, and split it into several files";
            self.problems.push(Problem::of_file(&file.name, message, hint));
            return;
        }
        let text = match text_from_bytes(&file.name, bytes) {
            Ok(text) => text,
            Err(problem) => return self.problems.push(*problem),
        };
        // In UTF-16, every second byte of Latin text is 0.
        if matches!(bytes.as_slice(), [0, _, 0, ..] | [_, 0, _, 0, ..]) {
            self.problems.push(Problem::of_file(&file.name, "the file is UTF-16", "save it as UTF-8"));
            return;
        }
        let mut checker = Checker::new(&file.name, text);
        if let Some(at) = text.find('\0') {
            checker
                .report(Span::new(at, at + 1), "this is a zero byte, which text never contains")
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
        let mut documents = ManifestDocuments::new(&file.name, text).nodes().peekable();
        if documents.peek().is_none() {
            checker.report(Span::empty(0), "the file contains no policy").hint("write one, or remove the file");
        }
        for document in documents {
            match document {
                Ok(document) => self.load_document(&mut checker, file, &document),
                Err(problem) => checker.take(problem),
            }
            if checker.problems.len() > MAX_PROBLEMS {
                break;
            }
        }
        self.problems.append(&mut checker.problems);
    }

    fn load_document(&mut self, checker: &mut Checker<'_>, file: &'f PolicyFile, document: &ManifestNode) {
        let Some((kind, keys)) = checker.document(document) else { return };
        let name = document.at_pointer("/metadata/name");
        let span = name.map_or(document.span, |name| name.span);
        let name = name.and_then(|name| name.as_str()).unwrap_or_default().to_owned();
        let file_name: Arc<str> = file.name.as_str().into();
        let origin =
            |span: Span, checker: &Checker<'_>| Origin { file: Arc::clone(&file_name), line: checker.line(span) };
        let place = Place { file, span };
        let whole = origin(document.span, checker);
        self.documents.push(PolicyDocument { kind, name: name.clone(), origin: whole.clone() });
        let mut origins: Origins =
            keys.iter().map(|(key, entry)| (key.clone(), origin(entry.key_span, checker))).collect();
        origins.insert(String::new(), whole);
        let (spec, spec_key) =
            document.get("spec").map_or((document, document.span), |spec| (&spec.value, spec.key_span));
        match kind {
            "NodePolicy" => {
                self.node_origins = origins;
                let mut nodes = NodeSettings::default();
                let read = NODE_KEYS
                    .iter()
                    .try_for_each(|key| read_key(key, &mut nodes, &keys, &|node| origin(node.span, checker)).map(drop));
                let nodes = read.map(|()| nodes);
                return take_only(&mut self.nodes, kind, checker, document, place, nodes);
            }
            "RegistryPolicy" => {
                self.registry_origins = origins;
                return take_only(
                    &mut self.registries,
                    kind,
                    checker,
                    document,
                    place,
                    RegistryPolicy::deserialize(spec),
                );
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
        let policy = pod_policy(name, spec, &keys, origins, &|node| origin(node.span, checker));
        let policy = readable(checker, document, policy);
        let places = keys.into_iter().map(|(key, entry)| (key, entry.key_span)).collect();
        self.pods.extend(policy.map(|policy| Loaded { policy, place, spec: spec_key, places }));
    }

    /// Reports the first policy beyond the limit, in order of file and line.
    fn report_too_many(&mut self) {
        let count = self.pods.len();
        let mut places: Vec<_> = self.pods.iter().map(|pod| pod.place).collect();
        places.sort_unstable();
        if let Some(place) = places.get(MAX_POLICIES) {
            let message =
                format!("there are {count} PodPolicies, and at most {MAX_POLICIES} are allowed: this is one too many");
            let hint = Some("merge policies that differ only in their namespaces".to_owned());
            self.problems.push(Problem { hint, ..place.problem(message) });
        }
    }

    /// Reports keys that two policies of one priority set for the same workloads, because neither takes precedence.
    fn report_collisions(&mut self) {
        // The entries of all lists count.
        let keys = POD_KEYS.iter().filter(|key| key.list.is_none());
        let keys: Vec<&str> = keys.map(|key| key.name).collect();
        let taken: BTreeSet<i64> = self.pods.iter().filter_map(|pod| pod.policy.priority).collect();
        let mut found = Vec::new();
        for group in self.pods.chunk_by(|a, b| a.policy.priority == b.policy.priority) {
            let matches = group.iter().map(|loaded| (&loaded.policy.matches.namespaces, &loaded.places));
            let overlaps = Overlaps::of(matches, &keys);
            let policies = group.iter().map(|loaded| &loaded.policy);
            let disputes = find_disputes(policies, MAX_PROBLEMS.saturating_sub(found.len()));
            found.extend(disputes.iter().filter_map(|dispute| dispute_problem(dispute, group, &taken)));
            for (at, one) in group.iter().enumerate() {
                for other in overlaps.after(at).filter_map(|other| group.get(other)) {
                    found.extend(keys.iter().filter_map(|key| collision_problem(key, one, other, &taken)));
                    if found.len() >= MAX_PROBLEMS {
                        let message = "more policies of equal priority set the same keys; they are not listed";
                        found.push(Problem::of_file(&one.place.file.name, message, "fix these and check again"));
                        self.problems.extend(found);
                        return;
                    }
                }
            }
        }
        self.problems.extend(found);
    }
}

/// Why a person may read the text differently than Mullion because of that character.
fn misleading(c: char) -> Option<&'static str> {
    match c {
        '\u{202a}'..='\u{202e}' | '\u{2066}'..='\u{2069}' => {
            Some("shows the text after it in another order than the one in the file")
        }
        // YAML 1.1 and editors end a line there; YAML 1.2 does not.
        '\u{85}' | '\u{2028}' | '\u{2029}' => Some("looks like a line end and is not one"),
        _ => None,
    }
}

/// Accepts a policy of a kind of which only one may exist.
fn take_only<'f, T>(
    taken: &mut Option<(T, Place<'f>)>,
    kind: &str,
    checker: &mut Checker<'_>,
    document: &ManifestNode,
    place: Place<'f>,
    policy: Result<T, Error>,
) {
    if let Some((_, first)) = taken {
        checker
            .report(place.span, format!("there is a second {kind}, and only one is allowed"))
            .related(first.related("the first is"))
            .hint("merge both into one document, and remove the other");
    } else if let Some(policy) = readable(checker, document, policy) {
        *taken = Some((policy, place));
    }
}

fn dispute_problem(dispute: &Dispute<'_>, group: &[Loaded<'_>], taken: &BTreeSet<i64>) -> Option<Problem> {
    let place = |(at, line): (usize, u32)| {
        let loaded = group.get(at)?;
        let file = loaded.place.file;
        Some((Place { file, span: file.line(line) }, loaded))
    };
    let what = format!("set different values for `{}` in `spec.{}`", shown(dispute.name), dispute.list);
    Some(undecided_problem([place(dispute.one)?, place(dispute.other)?], &what, taken))
}

fn collision_problem(key: &str, one: &Loaded<'_>, other: &Loaded<'_>, taken: &BTreeSet<i64>) -> Option<Problem> {
    let at = |loaded: &Loaded<'_>| loaded.places.get(key).copied();
    let both = [(Place { span: at(one)?, ..one.place }, one), (Place { span: at(other)?, ..other.place }, other)];
    Some(undecided_problem(both, &format!("both set `spec.{key}`"), taken))
}

/// The problem of two policies of one priority that do `what`, each at its place. `taken`: the priorities of all policies.
fn undecided_problem(mut both: [(Place<'_>, &Loaded<'_>); 2], what: &str, taken: &BTreeSet<i64>) -> Problem {
    both.sort_by_key(|(place, _)| *place);
    let [(first, early), (second, late)] = both;
    let priority = late.policy.priority.unwrap_or_default();
    let message = format!(
        "PodPolicies `{}` and `{}` {what}, and both have priority {priority}: neither takes precedence",
        late.policy.name, early.policy.name
    );
    let change = late.priority_line(priority, taken);
    let hint = format!("{change}, or list different namespaces without `*` in match.namespaces.include of both");
    Problem {
        related: Some(first.related(format!("`{}` sets it", early.policy.name))),
        hint: Some(hint),
        ..second.problem(message)
    }
}

impl Loaded<'_> {
    /// The line that sets another `priority` for the policy than for this one, and its effect.
    fn priority_line(&self, priority: i64, taken: &BTreeSet<i64>) -> String {
        let free = |next: fn(i64) -> Option<i64>| {
            std::iter::successors(next(priority), |value| next(*value)).find(|value| !taken.contains(value))
        };
        let higher = free(|value| value.checked_add(1));
        let (other, effect) = match higher {
            Some(higher) => (higher, "takes precedence"),
            None => (free(|value| value.checked_sub(1)).unwrap_or_default(), "gives way"),
        };
        let lines = self.place.lines();
        let change = match self.places.get("priority") {
            Some(span) => format!("write `priority: {other}` on line {}", lines.line(span.start)),
            None => format!("add `priority: {other}` to `spec` on line {}", lines.line(self.spec.start)),
        };
        format!("{change} of {} so that `{}` {effect}", self.place.file.name, self.policy.name)
    }
}

/// The policy of a valid document; `place` returns the origin of a node.
fn pod_policy(
    name: String,
    spec: &ManifestNode,
    keys: &SpecEntries<'_>,
    origins: Origins,
    place: &dyn Fn(&ManifestNode) -> Origin,
) -> Result<PodPolicy, Error> {
    let PodPolicyScope { priority, matches, until } = PodPolicyScope::deserialize(spec)?;
    let mut policy = PodPolicy { name, priority: Some(priority), until, matches, origins, ..PodPolicy::default() };
    for key in POD_KEYS {
        if let Some(entries) = read_key(key, &mut policy.settings, keys, place)? {
            let entries = entries.into_iter().enumerate();
            policy.origins.extend(entries.map(|(at, origin)| (format!("{}.{at}", key.name), origin)));
            policy.mark(key.name);
        }
    }
    policy.settings.actions.iter_mut().for_each(|entry| entry.priority = priority);
    Ok(policy)
}

/// Reads a key as [`PolicyKey::read`] does; `None` if the document does not set it.
fn read_key<T>(
    key: &PolicyKey<T>,
    to: &mut T,
    keys: &SpecEntries<'_>,
    place: &dyn Fn(&ManifestNode) -> Origin,
) -> Result<Option<Vec<Origin>>, Error> {
    let Some(entry) = keys.get(key.name) else { return Ok(None) };
    let origin_of = |at: usize| match &entry.value.value {
        NodeValue::List(items) => place(items.get(at).unwrap_or(&entry.value)),
        _ => place(&entry.value),
    };
    (key.read)(to, entry.value.to_json(), &origin_of).map(Some)
}

/// Converts a checked document into its type. A failure is a gap in the schema, and becomes a problem instead of a
/// panic.
fn readable<T>(checker: &mut Checker<'_>, document: &ManifestNode, policy: Result<T, Error>) -> Option<T> {
    policy
        .inspect_err(|error| {
            checker.report(document.span, format!("`spec` cannot be read: {error}"));
        })
        .ok()
}

#[cfg(test)]
mod tests;
