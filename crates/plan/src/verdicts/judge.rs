//! Whether nodes of the target run an image, and which image to use instead.
//!
//! Sources: upgrade.md of the reference, sections 2.2 (tags) and 2.3 (verdicts). The new nodes follow the rule of the
//! container runtime of existing nodes of their build; without such nodes the newest rule. Up to 26100 all rules agree.

use mullion_engine::detect::image_names::{Confidence, ProposedImage, Retag, frozen_since, retag, shared_tag};
use mullion_engine::model::image::{ImageOs, ImageRef};
use mullion_engine::model::published_images::{PublishedImages, SharedTag};
use mullion_engine::model::text::{list_with, upper_first};
use mullion_engine::model::windows::{Build, STABLE_ABI_FROM, release_name};

use crate::context::PlanContext;
use crate::report::{Proposal, ProposalConfidence, Verdict};
use crate::scope::MoveScope;
use crate::verdicts::evidence::{ImageEvidence, Isolation};
use crate::verdicts::gap::Gap;
use mullion_survey::analysis::{FleetRules, RunningImages};
use mullion_survey::inventory::Inventory;
use mullion_survey::report::Knowledge;

/// Base images by the word in the names of images that are built on them.
const BASES: [(&str, &str); 2] =
    [("nanoserver", "mcr.microsoft.com/windows/nanoserver"), ("servercore", "mcr.microsoft.com/windows/servercore")];

/// The verdict about one image.
#[derive(Default)]
pub(super) struct ImageVerdict {
    pub(super) verdict: Verdict,
    pub(super) because: String,
    pub(super) builds: Vec<Build>,
    pub(super) known_from: Knowledge,
    pub(super) proposal: Option<Proposal>,
    pub(super) from_line: Option<String>,
    pub(super) notes: Vec<String>,
    pub(super) find_out: String,
    pub(super) gap: Option<Gap>,
}

impl ImageVerdict {
    fn new(verdict: Verdict, because: String) -> Self {
        Self { verdict, because, ..Self::default() }
    }

    fn unknown(gap: Gap, image: &str) -> Self {
        let find_out = gap.find_out(image);
        Self { find_out, gap: Some(gap), ..Self::new(Verdict::Unknown, gap.because().to_owned()) }
    }
}

/// Judges images for the target of a move.
pub(super) struct ImageJudge<'a> {
    pub(super) inventory: &'a Inventory,
    pub(super) running: &'a RunningImages,
    pub(super) scope: &'a MoveScope,
    pub(super) context: PlanContext<'a>,
}

/// The builds of an image, and where they are known from.
struct KnownBuilds<'t> {
    all: Vec<Build>,
    known_from: Knowledge,
    /// The row of a tag that names no release and whose releases change.
    shared: Option<&'t SharedTag>,
}

impl ImageJudge<'_> {
    /// The verdict about an image.
    pub(super) fn judge(&self, evidence: &ImageEvidence<'_>) -> ImageVerdict {
        let Ok(image) = ImageRef::parse(evidence.image) else {
            return ImageVerdict::unknown(Gap::NotAReference, evidence.image);
        };
        let builds = self.builds(&image, evidence);
        let mut verdict = self.decide(&image, evidence, &builds);
        if let Some(shared) = builds.shared
            && !evidence.builds.is_empty()
            && !evidence.builds.iter().any(|build| shared.builds.contains(build))
        {
            verdict.notes.push(format!(
                "Its containers run an image for {} that was pulled before the tag changed: a new node pulls another one.",
                self.names(&evidence.builds, "and")
            ));
        }
        self.add_frozen(&image, &mut verdict);
        verdict.builds = builds.all;
        verdict.known_from = builds.known_from;
        verdict
    }

    /// The builds of an image. Tags that name no release have those of the tables: an image that runs may be an older one.
    fn builds(&self, image: &ImageRef<'_>, evidence: &ImageEvidence<'_>) -> KnownBuilds<'_> {
        let shared = shared_tag(self.tables(), image).filter(|(row, _)| {
            let registry = image.normalized_registry();
            row.registries.iter().any(|publisher| *publisher == registry)
        });
        match (evidence.known_from, shared) {
            (Knowledge::Running | Knowledge::Name | Knowledge::Unknown, Some((_, shared)))
                if !shared.builds.is_empty() =>
            {
                KnownBuilds { all: shared.builds.clone(), known_from: Knowledge::Name, shared: Some(shared) }
            }
            _ => KnownBuilds { all: evidence.builds.clone(), known_from: evidence.known_from, shared: None },
        }
    }

    fn decide(&self, image: &ImageRef<'_>, evidence: &ImageEvidence<'_>, builds: &KnownBuilds<'_>) -> ImageVerdict {
        if evidence.os == ImageOs::Linux && evidence.hosts.is_empty() {
            let uses = if evidence.isolation == Isolation::Volume { "mounts" } else { "runs" };
            let because = format!("Its image is for Linux: no Windows node {uses} it, in the present pools neither.");
            return ImageVerdict::new(Verdict::Rebuild, because);
        }
        // A registry that was read is newer than a message.
        if evidence.platforms.is_none() && self.running.is_refused_by(evidence.image, self.scope.target) {
            let release = &self.scope.release;
            let lead =
                format!("A {release} node of this cluster pulled it, and its manifest has no entry for the node.");
            return self.replace(image, &lead);
        }
        if let Some(because) = self.runs_on_every_build(evidence) {
            return ImageVerdict::new(Verdict::RunsAsIs, because);
        }
        if builds.all.is_empty() {
            return self.decide_without_builds(image, evidence);
        }
        let fitting: Vec<Build> =
            builds.all.iter().copied().filter(|build| self.rules().runs(self.scope.target, &[*build])).collect();
        if let Some(newest) = fitting.iter().max() {
            return self.fits(image, evidence, builds, *newest);
        }
        // The image may be an index with entries for other builds.
        if builds.known_from == Knowledge::Running {
            return self.decide_without_builds(image, evidence);
        }
        let release = &self.scope.release;
        let lead = format!(
            "{}, and {release} nodes do not run images for {}.",
            self.clause(builds),
            self.names(&builds.all, "or")
        );
        let mut verdict = self.replace(image, &lead);
        match evidence.isolation {
            Isolation::HostProcess => verdict.notes.push(format!(
                "HostProcess containers need no image of the host's build: if its tag is a single manifest and not an index, it runs on {release} nodes as it is."
            )),
            Isolation::Volume if evidence.platforms.as_ref().is_none_or(|platforms| !platforms.index) => {
                verdict.notes.push(format!(
                    "{release} nodes pull it if its tag is a single manifest and not an index; whether they mount layers for another release is not documented."
                ));
            }
            Isolation::Volume | Isolation::Process | Isolation::VirtualMachine | Isolation::UnreadRuntimeClass => {}
        }
        verdict
    }

    /// Why the build of the image does not matter: containers that are not isolated by process need an image that nodes of
    /// the target pull, and nothing else.
    fn runs_on_every_build(&self, evidence: &ImageEvidence<'_>) -> Option<String> {
        let needs = match evidence.isolation {
            Isolation::Process => return None,
            // By process or by machine: both run what ran on such a host. What was mounted there is mounted here too.
            Isolation::UnreadRuntimeClass | Isolation::Volume => return self.ran_on_such_a_host(evidence),
            Isolation::HostProcess => "HostProcess containers need no image of the host's build",
            Isolation::VirtualMachine => "a container in a virtual machine runs an image up to the build of the node",
        };
        let is_host_process = evidence.isolation == Isolation::HostProcess;
        if is_host_process && evidence.platforms.is_none() && names_host_process(evidence.image) {
            return Some(format!(
                "Its name states an image for HostProcess containers, which every node pulls, and {needs}."
            ));
        }
        let fits_machine = evidence.builds.iter().all(|build| *build <= self.scope.target);
        if let Some(pulled) = evidence.pulled_everywhere().filter(|_| is_host_process || fits_machine) {
            return Some(format!("{pulled}, and {needs}."));
        }
        let host = evidence.hosts.iter().rfind(|host| self.accepts_what_runs_on(**host))?;
        Some(format!("Containers with this image ran on {} nodes, and {needs}.", self.name(*host)))
    }

    /// Whether a node of the target takes every image that a host takes. A host from 20348 on takes images from 20348 up
    /// to its own build.
    fn accepts_what_runs_on(&self, host: Build) -> bool {
        let takes = |image: Build| self.rules().runs(self.scope.target, &[image]);
        host == self.scope.target || (host >= STABLE_ABI_FROM && takes(host) && takes(STABLE_ABI_FROM))
    }

    /// Why containers that ran on a host prove that nodes of the target run the image; not of exactly which build it is.
    fn ran_on_such_a_host(&self, evidence: &ImageEvidence<'_>) -> Option<String> {
        let release = &self.scope.release;
        let host = evidence.hosts.iter().rfind(|host| self.accepts_what_runs_on(**host))?;
        if self.context.strict_match {
            return None;
        }
        let (name, what) = (self.name(*host), ran(evidence));
        Some(if *host == self.scope.target {
            format!("{what} ran on {release} nodes.")
        } else {
            format!("{what} ran on {name} nodes, and {release} nodes run the same images.")
        })
    }

    fn decide_without_builds(&self, image: &ImageRef<'_>, evidence: &ImageEvidence<'_>) -> ImageVerdict {
        if let Some(because) = self.ran_on_such_a_host(evidence) {
            return ImageVerdict::new(Verdict::RunsAsIs, because);
        }
        let lead = match shared_tag(self.tables(), image) {
            Some((_, shared)) => format!("Its tag names no release: {}.", shared.moved),
            None => "Its name states no release.".to_owned(),
        };
        match retag(self.tables(), image, self.scope.target) {
            Retag::Another(ProposedImage { confidence: Confidence::Table, .. })
            | Retag::NoTag { from: Some(_), .. } => {
                return self.replace(image, &lead);
            }
            Retag::Another(_) | Retag::NoTag { from: None, .. } | Retag::Keep | Retag::Pinned => {}
        }
        let is_mounted = evidence.isolation == Isolation::Volume && !evidence.hosts.is_empty();
        let gap = if evidence.platforms.is_some() {
            Gap::NoVersion
        } else if evidence.isolation == Isolation::HostProcess && !evidence.hosts.is_empty() {
            Gap::HostProcessPull
        } else if evidence.known_from == Knowledge::Running || is_mounted {
            let builds: Vec<Build> =
                if is_mounted { evidence.hosts.iter().copied().collect() } else { evidence.builds.clone() };
            let (what, names) = (ran(evidence), self.names(&builds, "and"));
            let release = &self.scope.release;
            return ImageVerdict {
                because: format!("{what} ran on {names} nodes; whether it has an entry for {release} is not known."),
                ..ImageVerdict::unknown(Gap::OtherBuilds, evidence.image)
            };
        } else if !evidence.hosts.is_empty() {
            Gap::NewerHosts
        } else if evidence.has_pods {
            Gap::NotRunning
        } else {
            Gap::NoPods
        };
        ImageVerdict::unknown(gap, evidence.image)
    }

    /// Nodes of the target run the image for the build `newest`.
    fn fits(
        &self,
        image: &ImageRef<'_>,
        evidence: &ImageEvidence<'_>,
        builds: &KnownBuilds<'_>,
        newest: Build,
    ) -> ImageVerdict {
        let (target, release) = (self.scope.target, &self.scope.release);
        let clause = self.clause(builds);
        if newest == target {
            return ImageVerdict::new(Verdict::RunsAsIs, format!("{clause}."));
        }
        let lead = format!("{clause}, and {release} nodes run images for {}.", self.name(newest));
        let strict = self.context.strict_match && evidence.isolation == Isolation::Process;
        if strict && retag(self.tables(), image, target) != Retag::Keep {
            return self.replace(image, &format!("{lead} An image of exactly {release} is recommended."));
        }
        let mut verdict = ImageVerdict::new(Verdict::RunsAsIs, lead);
        if evidence.isolation == Isolation::Process {
            verdict.notes.push(self.about_older_base(evidence.image, builds, newest));
        }
        verdict
    }

    /// What to know about an image for an older release that nodes of the target run.
    fn about_older_base(&self, image: &str, builds: &KnownBuilds<'_>, newest: Build) -> String {
        let (name, release) = (self.name(newest), &self.scope.release);
        // That it ran proves the entry for the build of its nodes, and nothing about others.
        if builds.known_from == Knowledge::Running {
            return format!(
                "Only its entry for {name} is known. If its index has one for {release}, new nodes pull that one: `mullion image {image} --registry` prints the entries."
            );
        }
        let until = self.base_end(newest).map_or_else(String::new, |date| format!(" until {date}"));
        format!(
            "It stays on the older base {name}, which Microsoft supports{until}; vendors recommend an image for {release}."
        )
    }

    /// The last day of support of base images.
    fn base_end(&self, build: Build) -> Option<jiff::civil::Date> {
        let rows = self.context.survey.facts.dates.iter();
        let of_build = rows.filter(|row| row.ends && row.concerns.image_build == Some(build));
        of_build.map(|row| row.date).min()
    }

    /// Another image in place of one that the target does not run. `lead`: why.
    fn replace(&self, image: &ImageRef<'_>, lead: &str) -> ImageVerdict {
        let release = &self.scope.release;
        match retag(self.tables(), image, self.scope.target) {
            Retag::Another(proposed) => self.another(image, lead, &proposed, self.scope.target),
            Retag::Pinned => self.pinned(image, lead),
            Retag::NoTag { from, notes } => {
                if let Some(proposed) = self.older(image).filter(|_| from.is_none()) {
                    return self.another(image, lead, &proposed, STABLE_ABI_FROM);
                }
                let from = from.or_else(|| self.base_of(image));
                let because = match &from {
                    Some(from) => format!("{lead} No tag for {release} is known: build the image again on {from}."),
                    None => format!("{lead} No tag for {release} is known: its owner builds the image again."),
                };
                ImageVerdict {
                    from_line: from.map(|from| format!("FROM {from}")),
                    notes: notes.iter().map(|note| sentence(note)).collect(),
                    ..ImageVerdict::new(Verdict::Rebuild, because)
                }
            }
            // The tables have the tag for the target, and the registry or a policy states something else.
            Retag::Keep => ImageVerdict::new(
                Verdict::Rebuild,
                format!("{lead} The tag is the one for {release}: its owner builds the image again."),
            ),
        }
    }

    /// The tag of the oldest release that nodes of the target run, where there is none for the target itself.
    fn older(&self, image: &ImageRef<'_>) -> Option<ProposedImage<'_>> {
        let is_possible = !self.context.strict_match && self.rules().runs(self.scope.target, &[STABLE_ABI_FROM]);
        match retag(self.tables(), image, STABLE_ABI_FROM) {
            Retag::Another(proposed) if is_possible => Some(proposed),
            _ => None,
        }
    }

    /// The proposed image, which is for `build`, unless its registry refutes it.
    fn another(&self, image: &ImageRef<'_>, lead: &str, proposed: &ProposedImage<'_>, build: Build) -> ImageVerdict {
        let release = &self.scope.release;
        let written = &proposed.image;
        let confidence = match self.confirmed(proposed) {
            Ok(confidence) => confidence,
            Err(refuted) => {
                let older = self.older(image).filter(|_| build == self.scope.target);
                let is_known = |older: &ProposedImage<'_>| {
                    self.confirmed(older).is_ok_and(|sure| sure != ProposalConfidence::Guess)
                };
                if let Some(older) = older.filter(is_known) {
                    return self.another(image, &format!("{lead} {refuted}."), &older, STABLE_ABI_FROM);
                }
                let from = self.base_of(image);
                return ImageVerdict {
                    from_line: from.map(|from| format!("FROM {from}")),
                    ..ImageVerdict::new(
                        Verdict::Rebuild,
                        format!("{lead} {refuted}, so its owner builds the image again for {release}."),
                    )
                };
            }
        };
        let (advice, gap) = match confidence {
            ProposalConfidence::Registry => (format!("Use {written}, which its registry has."), None),
            ProposalConfidence::Table => (format!("Use {written}."), None),
            ProposalConfidence::Running => (format!("Use {written}, which nodes of this cluster run."), None),
            ProposalConfidence::Guess => {
                let name = self.name(build);
                (format!("The image for {name} is probably {written}; check that it exists."), Some(Gap::Guess))
            }
        };
        let mut notes = self.remarks(proposed);
        if build != self.scope.target {
            notes.insert(
                0,
                format!("No tag for {release} is known; {release} nodes run images for {}.", self.name(build)),
            );
        }
        let product = proposed.product.as_ref();
        let product = product.map(|change| format!("{} {} becomes {}", change.product, change.from, change.to));
        ImageVerdict {
            proposal: Some(Proposal {
                image: written.clone(),
                confidence,
                product: product.unwrap_or_default(),
                other_repository: is_other_repository(image, written),
            }),
            notes,
            find_out: gap.map_or_else(String::new, |gap| gap.find_out(written)),
            gap,
            ..ImageVerdict::new(Verdict::AnotherTag, format!("{lead} {advice}"))
        }
    }

    /// What is known about a proposed image; an error says how its registry refutes it.
    fn confirmed(&self, proposed: &ProposedImage<'_>) -> Result<ProposalConfidence, String> {
        let written = &proposed.image;
        if self.inventory.reported_images.absent.contains(written) {
            return Err(format!("Its registry does not have {written}"));
        }
        let builds = self.inventory.snapshot.images.get(written).map(|platforms| platforms.builds());
        match builds {
            Some(builds) if self.rules().runs(self.scope.target, &builds) => Ok(ProposalConfidence::Registry),
            Some(builds) if !builds.is_empty() => {
                Err(format!("The registry has {written}, but only for {}", self.names(&builds, "and")))
            }
            _ if self.running.is_refused_by(written, self.scope.target) => {
                Err(format!("Nodes of this cluster pulled {written}, and its manifest has no entry for them"))
            }
            _ => Ok(match proposed.confidence {
                Confidence::Table => ProposalConfidence::Table,
                Confidence::Guess if self.runs_here(written) => ProposalConfidence::Running,
                Confidence::Guess => ProposalConfidence::Guess,
            }),
        }
    }

    /// Whether containers with that image ran on nodes that run the same images as those of the target.
    fn runs_here(&self, image: &str) -> bool {
        self.running.hosts(image).any(|host| self.accepts_what_runs_on(host))
    }

    /// A digest names one image: the tag beside it, if there is one, shows which other one to look for.
    fn pinned(&self, image: &ImageRef<'_>, lead: &str) -> ImageVerdict {
        let release = &self.scope.release;
        let written = image.to_string();
        let tagged = written.split('@').next().filter(|_| image.tag().is_some()).unwrap_or_default();
        let found = ImageRef::parse(tagged).ok().and_then(|tagged_image| {
            match retag(self.tables(), &tagged_image, self.scope.target) {
                Retag::Another(proposed) => {
                    let confidence = self.confirmed(&proposed).ok()?;
                    (confidence != ProposalConfidence::Guess).then_some(proposed.image)
                }
                Retag::Keep => Some(tagged.to_owned()),
                Retag::NoTag { .. } | Retag::Pinned => None,
            }
        });
        match found {
            Some(tag) => ImageVerdict::new(
                Verdict::AnotherTag,
                format!("{lead} It is pinned by digest: use the digest that {tag} has now."),
            ),
            None => ImageVerdict::new(
                Verdict::Rebuild,
                format!(
                    "{lead} It is pinned by digest: it needs the digest of an image for {release} from its publisher."
                ),
            ),
        }
    }

    /// What else to know about a proposed image.
    fn remarks(&self, proposed: &ProposedImage<'_>) -> Vec<String> {
        let mut remarks = Vec::new();
        if let Some(since) = proposed.frozen_since {
            remarks.push(format!("The proposed tag has had no updates since {since}."));
        }
        if let Some(end) = proposed.support_end {
            let ends = if end.date < self.context.survey.today { "ended" } else { "ends" };
            remarks.push(format!("Support of its product {ends} on {}: move to {}.", end.date, end.instead));
        }
        remarks.extend(proposed.notes.iter().map(|note| sentence(note)));
        remarks
    }

    /// Adds since when the image has had no updates, and what continues it.
    fn add_frozen(&self, image: &ImageRef<'_>, verdict: &mut ImageVerdict) {
        let Some(since) = frozen_since(self.tables(), image) else { return };
        let mut note = format!("The image has had no updates since {since}.");
        let mut remarks = Vec::new();
        if verdict.verdict == Verdict::RunsAsIs {
            match retag(self.tables(), image, self.scope.target) {
                Retag::Another(proposed)
                    if self.confirmed(&proposed).is_ok_and(|sure| sure != ProposalConfidence::Guess) =>
                {
                    note = format!("{note} {} continues it.", proposed.image);
                    remarks = self.remarks(&proposed);
                }
                Retag::NoTag { from: Some(from), notes } => {
                    note = format!("{note} Build it again on {from}.");
                    remarks = notes.iter().map(|note| sentence(note)).collect();
                }
                Retag::Another(_) | Retag::NoTag { .. } | Retag::Keep | Retag::Pinned => {}
            }
        }
        verdict.notes.push(note);
        verdict.notes.extend(remarks);
    }

    /// The base image of the target that an image is built on, if its name states the base.
    fn base_of(&self, image: &ImageRef<'_>) -> Option<String> {
        let name = format!("{} {}", image.repository(), image.tag().unwrap_or_default()).to_ascii_lowercase();
        let (_, base) = BASES.iter().find(|(word, _)| name.contains(word))?;
        match retag(self.tables(), &ImageRef::parse(base).ok()?, self.scope.target) {
            Retag::Another(proposed) => Some(proposed.image),
            Retag::NoTag { .. } | Retag::Keep | Retag::Pinned => None,
        }
    }

    /// Where the builds are known from: `Its name states ltsc2022`.
    fn clause(&self, builds: &KnownBuilds<'_>) -> String {
        let names = self.names(&builds.all, "and");
        let images = if builds.all.len() == 1 { "an image" } else { "images" };
        match (builds.shared, builds.known_from) {
            (Some(shared), _) => format!("Its tag names no release and has {images} for {names} ({})", shared.moved),
            (None, Knowledge::Policy) => format!("A PodPolicy states {images} for {names}"),
            (None, Knowledge::Registry) => format!("Its registry has {images} for {names}"),
            (None, Knowledge::Running) => format!("Containers with this image ran on {names} nodes"),
            (None, Knowledge::Name | Knowledge::Unknown) => format!("Its name states {names}"),
        }
    }

    fn rules(&self) -> FleetRules<'_> {
        FleetRules { inventory: self.inventory, releases: &self.context.survey.policies.nodes.releases }
    }

    fn tables(&self) -> &PublishedImages {
        &self.context.survey.facts.images
    }

    fn name(&self, build: Build) -> String {
        release_name(build, &self.context.survey.policies.nodes.releases).replace("build-", "build ")
    }

    fn names(&self, builds: &[Build], last: &str) -> String {
        let mut builds = builds.to_vec();
        builds.sort_unstable();
        list_with(builds.into_iter().map(|build| self.name(build)), last)
    }
}

/// What ran on the hosts of the evidence.
fn ran(evidence: &ImageEvidence<'_>) -> &'static str {
    if evidence.isolation == Isolation::Volume { "Pods with this image" } else { "Containers with this image" }
}

/// Whether a name follows the conventions of images that are built on the base for HostProcess containers, which has no
/// `os.version` (kubernetes-csi: `windows-hp`; kubernetes-sigs/sig-windows-tools: `hostprocess`; windows.md of the reference, section 2.6).
fn names_host_process(image: &str) -> bool {
    let image = image.to_ascii_lowercase();
    image.contains("windows-hp")
        || image.split(['/', ':', '-', '_', '.']).any(|word| matches!(word, "hostprocess" | "hpc"))
}

fn is_other_repository(image: &ImageRef<'_>, proposed: &str) -> bool {
    ImageRef::parse(proposed).is_ok_and(|proposed| {
        (proposed.normalized_registry(), proposed.normalized_repository())
            != (image.normalized_registry(), image.normalized_repository())
    })
}

fn sentence(clause: &str) -> String {
    format!("{}.", upper_first(clause))
}
