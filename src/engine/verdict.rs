//! Which operating system a subject needs, and how that is known.
//!
//! Four levels, and a lower one speaks only where those above are silent: what the subject itself says, what its
//! namespace or policy says, what its images are, and the node it is bound to. Then the Linux default. A wrong
//! "Windows" or a wrong "Linux" costs a pod, "Undecided" costs little: in doubt nothing decides.

use serde::{Deserialize, Serialize};
use serde_json::Value;

use super::constraint::{self, NodeConstraints, OS_LABELS, OsWanted};
use super::images::ContainerImage;
use super::limits;
use super::note::Note;
use super::pod::{Pod, member};
use super::world::{Namespace, Nodes, Os, World};
use crate::policy::{ScopeOs, Settings};

/// The annotation with which an author, or a namespace, names the operating system.
pub const OS_ANNOTATION: &str = "mullion.dev/os";

/// Programs that a command line names only on Windows; `pwsh` exists on Linux, but never speaks against Windows.
const WINDOWS_SHELLS: [&str; 3] = ["powershell", "pwsh", "cmd"];

/// Where a container names programs.
const COMMANDS: [&str; 6] = [
    "/command",
    "/livenessProbe/exec/command",
    "/readinessProbe/exec/command",
    "/startupProbe/exec/command",
    "/lifecycle/postStart/exec/command",
    "/lifecycle/preStop/exec/command",
];

/// What the evidence comes to.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Decision {
    /// The answer.
    pub verdict: Verdict,
    /// What kind of evidence decided.
    pub basis: Basis,
    /// Whether placement by operating system may follow: not where someone said `any`.
    pub placement: bool,
    /// What decided first, then what else was seen.
    pub evidence: Vec<Evidence>,
}

/// Which operating system a subject needs.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize)]
#[serde(rename_all = "lowercase")]
pub enum Verdict {
    /// Windows.
    Windows,
    /// Linux.
    Linux,
    /// Nobody says, or not clearly enough.
    Undecided,
    /// Two placements exclude each other: the pod could run nowhere.
    Conflict,
}

/// What kind of evidence decided.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum Basis {
    /// Author, namespace, policy or image.
    Intent,
    /// Only the node it is bound to.
    Place,
    /// The Linux default.
    Default,
    /// Nothing decided.
    None,
}

/// One signal about a subject's OS.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Evidence {
    /// What it says.
    pub says: Says,
    /// Where it stands.
    pub source: Source,
}

/// What a signal says.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Says {
    /// This operating system.
    Os(Os),
    /// Either, on purpose: no placement.
    Any,
    /// An image that exists for both: decides nothing.
    Multi,
    /// Looks like Windows: never enough for Windows, always enough against the Linux default.
    LooksWindows,
}

/// Where a signal stands.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Source {
    /// A field of the subject, as a JSON pointer into it.
    Field(String),
    /// An annotation of the namespace.
    Namespace(String),
    /// A policy's `detect.os`, with file and line where known.
    Policy(String),
    /// A node's name.
    Node(String),
    /// An image.
    Image {
        /// Pointer to the container's `image`.
        pointer: String,
        /// The reference.
        image: String,
        /// `policy`, `registry`, `tag` or `repository`.
        how: &'static str,
    },
}

/// What the decision is made from.
#[derive(Clone, Copy)]
pub struct Asked<'a> {
    /// The pod, or the template's pod.
    pub pod: Pod<'a>,
    /// The whole subject.
    pub object: &'a Value,
    /// Whether the annotation [`OS_ANNOTATION`] counts on the object around a template too: only where placement is
    /// written into that template, since no pod carries it.
    pub around_template: bool,
    /// Whether it is a DaemonSet whose images exist for both systems: it may mean every node of its pool, those that
    /// come tomorrow included.
    pub may_mean_every_node: bool,
    /// Mullion's note on a DaemonSet whose template changes: its author may mean something else now, so the selector
    /// that the note names decides only where nothing else does.
    pub before: Option<Earlier<'a>>,
    /// Whether a selector that Mullion gave the pod by default counts for nothing, as if it had not been given.
    pub without_default: bool,
    /// Its namespace, where known.
    pub namespace: Option<&'a Namespace>,
    /// The cluster.
    pub world: &'a World,
    /// What the policies come to.
    pub settings: &'a Settings,
    /// What is known of the images.
    pub images: &'a [ContainerImage<'a>],
}

/// What stood in a template before it changed.
#[derive(Clone, Copy)]
pub struct Earlier<'a> {
    /// Mullion's note on it.
    pub note: &'a Note,
    /// Whether the selector that the note names is missing now, and comes back.
    pub selector_returns: bool,
}

/// Decides from everything but the Linux default, which depends on who asks: see
/// [`linux_default`](super::linux_default).
pub fn decide(asked: &Asked<'_>) -> Decision {
    own_fields(asked)
        .or_else(|| scope(asked))
        .or_else(|| images(asked))
        .or_else(|| place(asked))
        .or_else(|| placed_before(asked))
        .unwrap_or_else(|| Decision::undecided(Vec::new(), true))
        .with_more(image_evidence(asked))
        .with_more(looks_windows(&asked.pod).into_iter().collect())
}

impl Decision {
    fn undecided(evidence: Vec<Evidence>, placement: bool) -> Self {
        Self { verdict: Verdict::Undecided, basis: Basis::None, placement, evidence }
    }

    fn os(os: Os, basis: Basis, evidence: Vec<Evidence>) -> Self {
        Self { verdict: os.into(), basis, placement: true, evidence }
    }

    /// Adds evidence that did not decide.
    fn with_more(mut self, more: Vec<Evidence>) -> Self {
        for evidence in more {
            if !self.evidence.contains(&evidence) {
                self.evidence.push(evidence);
            }
        }
        self
    }

    /// The operating system, if one was decided.
    pub fn decided(&self) -> Option<Os> {
        match self.verdict {
            Verdict::Windows => Some(Os::Windows),
            Verdict::Linux => Some(Os::Linux),
            Verdict::Undecided | Verdict::Conflict => None,
        }
    }
}

impl Decision {
    /// Whether its images had, or could have, a say: neither the subject itself nor a scope says anything.
    pub fn heeds_images(&self) -> bool {
        let first = self.evidence.first().map(|first| (&first.says, &first.source));
        self.verdict != Verdict::Conflict
            && !matches!(
                first,
                Some((Says::Os(_) | Says::Any, Source::Field(_) | Source::Namespace(_) | Source::Policy(_)))
            )
    }
}

impl From<Os> for Verdict {
    fn from(os: Os) -> Self {
        match os {
            Os::Linux => Self::Linux,
            Os::Windows => Self::Windows,
        }
    }
}

impl Evidence {
    fn field(pod: &Pod<'_>, os: Os, pointer: &str) -> Self {
        Self { says: Says::Os(os), source: Source::Field(pod.at(pointer)) }
    }
}

// === level 1: the subject itself ===

/// What the subject's own fields and its annotation say; `None` if they say nothing.
fn own_fields(asked: &Asked<'_>) -> Option<Decision> {
    let pod = &asked.pod;
    let mut placements = explicit_placements(asked);
    let annotation = own_annotation(asked);
    if let Some((ScopeOs::Any, evidence)) = annotation {
        // `any` asks for no placement; what the fields say still decides which rules speak.
        let mut decision = agree(placements).unwrap_or_else(|| Decision::undecided(Vec::new(), false));
        decision.placement = false;
        decision.evidence.push(evidence);
        return Some(decision);
    }
    placements.extend(annotation.map(|(_, evidence)| evidence));
    let wanted = [constraint::selector_os(pod).0, constraint::affinity_os(pod)];
    let impossible = wanted.contains(&OsWanted::Impossible);
    if !placements.is_empty() || impossible {
        placements.extend(bound_node(pod, asked.world));
        if impossible {
            return Some(Decision {
                verdict: Verdict::Conflict,
                basis: Basis::Intent,
                placement: false,
                evidence: placements,
            });
        }
        return agree(placements);
    }
    if wanted.contains(&OsWanted::Unknown) {
        return Some(Decision::undecided(Vec::new(), false));
    }
    if wanted.contains(&OsWanted::Either) {
        let source = Source::Field(pod.at(constraint::REQUIRED_TERMS));
        return Some(Decision::undecided(vec![Evidence { says: Says::Any, source }], false));
    }
    implied(asked)
}

/// Placements that are written out: they cannot both hold if they differ.
fn explicit_placements(asked: &Asked<'_>) -> Vec<Evidence> {
    let (pod, world) = (&asked.pod, asked.world);
    let mut found = Vec::new();
    if let Some(os) = pod.text("/spec/os/name").and_then(Os::from_name) {
        found.push(Evidence::field(pod, os, "/spec/os/name"));
    }
    let [label, _] = OS_LABELS;
    let (selector, pointer) = if placed_by_mullion(asked) {
        // What its author says beside that counts as it did before.
        constraint::selector_os_without(pod, label)
    } else {
        constraint::selector_os(pod)
    };
    if let OsWanted::Only(os) = selector {
        found.push(Evidence::field(pod, os, pointer.as_deref().unwrap_or("/spec/nodeSelector")));
    }
    if let OsWanted::Only(os) = constraint::affinity_os(pod) {
        found.push(Evidence::field(pod, os, constraint::REQUIRED_TERMS));
    }
    let class = pod.text("/spec/runtimeClassName").and_then(|name| world.runtime_class(name));
    let class_os = class.and_then(|class| OS_LABELS.iter().find_map(|label| class.node_selector.get(*label)));
    if let Some(os) = class_os.and_then(|os| Os::from_name(os)) {
        found.push(Evidence::field(pod, os, "/spec/runtimeClassName"));
    }
    found
}

/// Whether the OS selector is one that Mullion wrote and that nobody meant: a bound pod got it for its place, a
/// DaemonSet for want of anything else, or for reasons that may be gone from a template that changes. It decides no more
/// the second time than it did the first.
fn placed_by_mullion(asked: &Asked<'_>) -> bool {
    let stands = constraint::selector_os(&asked.pod).0;
    let its_own = |note: &Note| note.placed_selector() && Os::from_name(&note.os).map(OsWanted::Only) == Some(stands);
    if let Some(before) = asked.before {
        return its_own(before.note);
    }
    let Some(note) = Note::of(asked.object).filter(its_own) else { return false };
    match note.basis {
        Basis::Place => place_of(&asked.pod, asked.world).map(Os::name) == Some(&note.os),
        Basis::Default => !asked.pod.pointer.is_empty() || asked.without_default,
        Basis::Intent | Basis::None => false,
    }
}

/// What was decided for a DaemonSet before, where nothing speaks of it any more; a default decides nothing again.
fn placed_before(asked: &Asked<'_>) -> Option<Decision> {
    let Earlier { note, selector_returns } = asked.before?;
    let stands = selector_returns || placed_by_mullion(asked);
    let os = Os::from_name(&note.os).filter(|_| stands && note.basis != Basis::Default)?;
    let (_, pointer) = constraint::selector_os(&asked.pod);
    let [label, _] = OS_LABELS;
    let pointer = pointer.unwrap_or_else(|| format!("/spec/nodeSelector/{}", constraint::escape(label)));
    Some(Decision::os(os, Basis::Intent, vec![Evidence::field(&asked.pod, os, &pointer)]))
}

/// `mullion.dev/os` on the pod, or on the object around the template.
pub fn own_annotation(asked: &Asked<'_>) -> Option<(ScopeOs, Evidence)> {
    let around = (asked.around_template && !asked.pod.pointer.is_empty()).then_some("");
    [asked.pod.pointer].into_iter().chain(around).find_map(|place| {
        let annotations = member(member(asked.object, place)?, "/metadata/annotations")?;
        let os = ScopeOs::from_name(annotations.get(OS_ANNOTATION)?.as_str()?)?;
        let pointer = format!("{place}/metadata/annotations/{}", constraint::escape(OS_ANNOTATION));
        Some((os, Evidence { says: os.says(), source: Source::Field(pointer) }))
    })
}

/// What follows from fields that name no operating system: `windowsOptions`, and pool labels whose nodes all have one.
fn implied(asked: &Asked<'_>) -> Option<Decision> {
    let mut found: Vec<Evidence> = windows_options(&asked.pod)
        .map(|pointer| Evidence::field(&asked.pod, Os::Windows, &pointer))
        .into_iter()
        .collect();
    found.extend(namespace_selector_os(asked));
    found.extend(pool(asked));
    let first = found.first()?.says;
    if found.iter().all(|evidence| evidence.says == first) {
        return agree(found);
    }
    // Pools change and options are copied: no reason to refuse anything, none to place it either.
    Some(Decision::undecided(found, false))
}

/// Pointer, below the pod, of the first `windowsOptions` that is set.
pub fn windows_options(pod: &Pod<'_>) -> Option<String> {
    const OPTIONS: &str = "/securityContext/windowsOptions";
    let set = |value: Option<&Value>| value.and_then(Value::as_object).is_some_and(|options| !options.is_empty());
    if set(pod.get(&format!("/spec{OPTIONS}"))) {
        return Some(format!("/spec{OPTIONS}"));
    }
    let container = pod.containers().find(|container| set(container.get(OPTIONS)))?;
    Some(container.pointer() + OPTIONS)
}

/// The OS that the namespace's own node selector names.
fn namespace_selector_os(asked: &Asked<'_>) -> Option<Evidence> {
    limits::node_selector(asked.namespace).find(|(_, key, _)| OS_LABELS.contains(key)).and_then(
        |(annotation, _, value)| {
            let os = Os::from_name(value)?;
            Some(Evidence { says: Says::Os(os), source: Source::Namespace(annotation.to_owned()) })
        },
    )
}

/// Everything the subject asks of its node, its namespace's selector included.
pub fn node_constraints<'a>(asked: &Asked<'a>) -> NodeConstraints<'a> {
    NodeConstraints::of(&asked.pod, limits::node_selector(asked.namespace).map(|(_, key, value)| (key, value)))
}

/// The one OS of all live nodes that satisfy the pod's and the namespace's node constraints.
fn pool(asked: &Asked<'_>) -> Option<Evidence> {
    let pod = &asked.pod;
    let mut constraints = node_constraints(asked);
    if placed_by_mullion(asked) {
        // Beside a default the other constraints have had their say.
        asked.before.filter(|before| before.note.basis != Basis::Default)?;
        let [label, _] = OS_LABELS;
        constraints = constraints.without(label);
    }
    if constraints.is_empty() {
        return None;
    }
    let nodes = asked.world.nodes.as_ref()?;
    let mut systems = nodes.samples(constraints.keys()).filter(|node| constraints.fit(node)).map(|node| node.os);
    let os = systems.next()??;
    if !systems.all(|other| other == Some(os)) || (os == Os::Linux && asked.may_mean_every_node) {
        return None;
    }
    let source = match limits::node_selector(asked.namespace).next() {
        Some((annotation, ..)) if NodeConstraints::of(pod, std::iter::empty()).is_empty() => {
            Source::Namespace(annotation.to_owned())
        }
        _ if pod.get("/spec/nodeSelector").is_some() => Source::Field(pod.at("/spec/nodeSelector")),
        _ => Source::Field(pod.at(constraint::REQUIRED_TERMS)),
    };
    Some(Evidence { says: Says::Os(os), source })
}

/// One verdict from signals that must agree; `None` if there are none.
fn agree(evidence: Vec<Evidence>) -> Option<Decision> {
    let mut systems = evidence.iter().filter_map(|evidence| match evidence.says {
        Says::Os(os) => Some(os),
        _ => None,
    });
    let os = systems.next()?;
    if systems.all(|other| other == os) {
        return Some(Decision::os(os, Basis::Intent, evidence));
    }
    Some(Decision { verdict: Verdict::Conflict, basis: Basis::Intent, placement: false, evidence })
}

// === level 2: namespace and policy ===

fn scope(asked: &Asked<'_>) -> Option<Decision> {
    let annotation = asked.namespace.and_then(|namespace| namespace.annotations.get(OS_ANNOTATION));
    let by_namespace = annotation
        .and_then(|value| ScopeOs::from_name(value))
        .map(|os| (os, Source::Namespace(OS_ANNOTATION.to_owned())));
    let (os, source) = by_namespace.or_else(|| {
        let origin = asked.settings.origins.get("detect.os");
        let place = origin.map_or_else(|| "detect.os".to_owned(), |at| format!("{}:{}", at.file, at.line));
        Some((asked.settings.os?, Source::Policy(place)))
    })?;
    let evidence = vec![Evidence { says: os.says(), source }];
    Some(match os {
        ScopeOs::Windows => Decision::os(Os::Windows, Basis::Intent, evidence),
        ScopeOs::Linux => Decision::os(Os::Linux, Basis::Intent, evidence),
        ScopeOs::Any => Decision::undecided(evidence, false),
    })
}

impl ScopeOs {
    /// The one system it names.
    pub fn os(self) -> Option<Os> {
        match self {
            Self::Windows => Some(Os::Windows),
            Self::Linux => Some(Os::Linux),
            Self::Any => None,
        }
    }

    /// `windows`, `linux` or `any`.
    pub fn from_name(name: &str) -> Option<Self> {
        match name {
            "windows" => Some(Self::Windows),
            "linux" => Some(Self::Linux),
            "any" => Some(Self::Any),
            _ => None,
        }
    }

    fn says(self) -> Says {
        match self {
            Self::Windows => Says::Os(Os::Windows),
            Self::Linux => Says::Os(Os::Linux),
            Self::Any => Says::Any,
        }
    }
}

// === level 3: images ===

fn image_evidence(asked: &Asked<'_>) -> Vec<Evidence> {
    asked.images.iter().filter_map(|image| image.evidence(&asked.pod)).collect()
}

fn images(asked: &Asked<'_>) -> Option<Decision> {
    let evidence = image_evidence(asked);
    let mut systems = evidence.iter().filter_map(|evidence| match evidence.says {
        Says::Os(os) => Some(os),
        _ => None,
    });
    let os = systems.next()?;
    if systems.all(|other| other == os) {
        Some(Decision::os(os, Basis::Intent, evidence))
    } else {
        Some(Decision::undecided(evidence, false))
    }
}

// === level 4: looks, and the node ===

/// The first thing that looks like Windows: a drive or pipe path, a Windows shell, or a label with which no kubelet on
/// Linux takes the pod.
fn looks_windows(pod: &Pod<'_>) -> Option<Evidence> {
    let [label, _] = OS_LABELS;
    if pod.label(label) == Some(Os::Windows.name()) {
        let pointer = pod.at(&format!("/metadata/labels/{}", constraint::escape(label)));
        return Some(Evidence { says: Says::LooksWindows, source: Source::Field(pointer) });
    }
    let in_containers = pod.containers().find_map(|container| {
        let texts = |name: &'static str| {
            let list = container.get(name).and_then(Value::as_array).into_iter().flatten();
            list.filter_map(Value::as_str)
        };
        let shell = COMMANDS.into_iter().find(|name| texts(name).next().is_some_and(is_windows_shell));
        let path = COMMANDS.into_iter().chain(["/args"]).find(|name| texts(name).any(is_windows_path));
        let mounts = container.get("/volumeMounts").and_then(Value::as_array).into_iter().flatten();
        let mount = mounts
            .filter_map(|mount| mount.get("mountPath").and_then(Value::as_str))
            .any(is_windows_path)
            .then_some("/volumeMounts");
        let working =
            container.get("/workingDir").and_then(Value::as_str).is_some_and(is_windows_path).then_some("/workingDir");
        shell.or(path).or(mount).or(working).map(|field| container.pointer() + field)
    });
    let pointer = in_containers.or_else(|| {
        let volumes = pod.items("/spec/volumes").iter().enumerate();
        volumes
            .filter(|(_, volume)| member(volume, "/hostPath/path").and_then(Value::as_str).is_some_and(is_windows_path))
            .map(|(index, _)| format!("/spec/volumes/{index}/hostPath/path"))
            .next()
    })?;
    Some(Evidence { says: Says::LooksWindows, source: Source::Field(pod.at(&pointer)) })
}

/// `C:\…`, `c:/…`, `\\.\pipe\…`, `npipe://…`.
fn is_windows_path(text: &str) -> bool {
    let drive = matches!(text.as_bytes(), [letter, b':', b'\\' | b'/', ..] if letter.is_ascii_alphabetic());
    drive || text.starts_with(r"\\.\pipe\") || text.starts_with("npipe:")
}

fn is_windows_shell(program: &str) -> bool {
    let name = program.rsplit(['/', '\\']).next().unwrap_or(program);
    let name = name.to_ascii_lowercase();
    WINDOWS_SHELLS.contains(&name.strip_suffix(".exe").unwrap_or(&name))
}

/// The node the pod is already bound to by name, where it is known.
fn bound_node(pod: &Pod<'_>, world: &World) -> Option<Evidence> {
    let name = pod.text("/spec/nodeName")?;
    let os = world.nodes.as_ref().and_then(|nodes| nodes.get(name)).and_then(|node| node.os)?;
    Some(Evidence { says: Says::Os(os), source: Source::Node(name.to_owned()) })
}

fn place(asked: &Asked<'_>) -> Option<Decision> {
    let evidence = bound_node(&asked.pod, asked.world).or_else(|| {
        let name = constraint::affinity_node_name(&asked.pod)?;
        let os = node_os(asked.world.nodes.as_ref(), name)?;
        Some(Evidence { says: Says::Os(os), source: Source::Node(name.to_owned()) })
    })?;
    let Says::Os(os) = evidence.says else { return None };
    Some(Decision::os(os, Basis::Place, vec![evidence]))
}

fn node_os(nodes: Option<&Nodes>, name: &str) -> Option<Os> {
    nodes.and_then(|nodes| nodes.get(name)).and_then(|node| node.os)
}

/// The OS of the node a pod is bound to, by `nodeName` or by a DaemonSet's affinity, whatever else says.
pub fn place_of(pod: &Pod<'_>, world: &World) -> Option<Os> {
    let name = pod.text("/spec/nodeName").or_else(|| constraint::affinity_node_name(pod))?;
    node_os(world.nodes.as_ref(), name)
}
