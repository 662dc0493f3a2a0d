//! What findings propose to replace an image: a tag, or the image to rebuild from.

use std::collections::BTreeSet;

use jiff::civil::Date;

use crate::detect::image_names::{Confidence, ProposedImage, Retag, retag};
use crate::model::cluster::Nodes;
use crate::model::image::ImageRef;
use crate::model::published_images::PublishedImages;
use crate::model::windows::{Build, STABLE_ABI_FROM};
use crate::place::{WorkloadContext, runs_on};

/// What to use in place of an image.
pub(crate) struct ImageProposal {
    /// Its Windows build.
    pub build: Build,
    pub change: ImageChange,
    /// Since when the current tag gets no updates.
    frozen_since: Option<Date>,
}

pub(crate) enum ImageChange {
    Tag(ProposedImage<'static>),
    /// Rebuild from that image, with the notes of the tables about it.
    Rebuild(String, &'static [String]),
}

impl ImageProposal {
    /// The proposal for the first of these builds for which there is one.
    pub(crate) fn find(image: &str, builds: impl IntoIterator<Item = Build>) -> Option<Self> {
        let image = ImageRef::parse(image).ok()?;
        let tables = PublishedImages::shipped();
        let frozen_since = tables.find(&image).and_then(|found| found.row.frozen_since);
        builds.into_iter().find_map(|build| {
            let change = match retag(tables, &image, build) {
                Retag::Another(proposed) => ImageChange::Tag(proposed),
                Retag::NoTag { from: Some(from), notes } => ImageChange::Rebuild(from, notes),
                Retag::NoTag { from: None, .. } | Retag::Keep | Retag::Pinned => return None,
            };
            Some(Self { build, change, frozen_since })
        })
    }

    /// Clauses about the proposal, each after a semicolon.
    pub(crate) fn remarks(&self) -> String {
        let mut clauses: Vec<String> = Vec::new();
        if let Some(since) = self.frozen_since {
            clauses.push(format!("the tag of today has had no updates since {since}"));
        }
        match &self.change {
            ImageChange::Tag(proposed) => add_remarks(proposed, &mut clauses),
            ImageChange::Rebuild(_, notes) => clauses.extend_from_slice(notes),
        }
        joined(&clauses)
    }
}

fn add_remarks(proposed: &ProposedImage<'_>, clauses: &mut Vec<String>) {
    if let Some(since) = proposed.frozen_since {
        clauses.push(format!("the proposed tag has had no updates since {since}"));
    }
    if let Some(end) = proposed.support_end {
        clauses.push(format!("support of its product ended on {}: move to {}", end.date, end.instead));
    }
    clauses.extend_from_slice(proposed.notes);
}

/// Clauses about a proposed image, each after a semicolon.
pub(crate) fn remarks_on(proposed: &ProposedImage<'_>) -> String {
    let mut clauses = Vec::new();
    add_remarks(proposed, &mut clauses);
    joined(&clauses)
}

fn joined(clauses: &[String]) -> String {
    clauses.iter().flat_map(|clause| ["; ", clause.as_str()]).collect()
}

/// The reference of a proposed image, with the version of its product if that changes.
pub(crate) fn reference(proposed: &ProposedImage<'_>) -> String {
    match &proposed.product {
        Some(change) => format!("{} ({} {} instead of {})", proposed.image, change.product, change.to, change.from),
        None => proposed.image.clone(),
    }
}

/// A part of a sentence: `such as` an image that the tables contain, `probably` a guess.
pub(crate) fn such_as(proposed: &ProposedImage<'_>) -> String {
    match proposed.confidence {
        Confidence::Table => format!("such as {}", reference(proposed)),
        Confidence::Guess => format!("probably {}; check that it exists", reference(proposed)),
    }
}

/// Those of these image builds that a Windows node runs, newest first. If no Windows node is known: all of them,
/// starting with 2022, which most hosts run.
pub(crate) fn runnable(builds: impl IntoIterator<Item = Build>, cx: &WorkloadContext<'_>) -> Vec<Build> {
    let fleet = fleet(cx);
    let runs = |build: &Build| {
        fleet.is_empty() || fleet.iter().any(|host| runs_on(*host, &[*build], cx.input.snapshot, cx.node_settings))
    };
    let mut builds: Vec<Build> = builds.into_iter().filter(runs).collect();
    builds.sort_by_key(|build| std::cmp::Reverse((fleet.is_empty() && *build == STABLE_ABI_FROM, *build)));
    builds
}

/// The builds of the Windows nodes, and of pools that may be empty.
pub(crate) fn fleet(cx: &WorkloadContext<'_>) -> BTreeSet<Build> {
    let live = cx.input.snapshot.nodes.as_ref().map(Nodes::windows_builds);
    let expected = cx.node_settings.expected_pools.iter().map(|pool| pool.build);
    live.into_iter().flatten().copied().chain(expected).collect()
}
