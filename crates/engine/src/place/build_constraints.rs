//! Build constraints: node selector, node affinity and label for the Windows builds of a pod's images.

use std::collections::BTreeSet;

use serde_json::{Value, json};

use crate::model::Edit;
use crate::model::json_pointer::escape;
use crate::model::names::{IMAGE_BUILD_LABEL, WINDOWS_BUILD_LABEL};
use crate::model::scheduling::node_constraints;
use crate::model::settings::BuildMode;
use crate::model::windows::Build;
use crate::place::context::WorkloadContext;
use crate::place::placement_changes::PlacementChanges;

/// Builds that are excluded from a pod's nodes, at most, in all terms together: 13 KB of a patch. The release table has
/// about ten, and real pods have a few terms. A pod with thousands of terms, or of images of other builds, is left as it
/// is: with every build in every term it would not fit into memory.
const MAX_EXCLUSIONS: usize = 1_000;

impl WorkloadContext<'_> {
    /// Adds the build constraint: see the modes of `place.build`. Nothing if the author constrains the build.
    pub fn constrain_build(&self, placed: &mut PlacementChanges<'_>) {
        match self.input.settings.build {
            BuildMode::Never => {}
            _ if !self.wants_build() => {}
            BuildMode::Exact if self.builds.single().is_some() => {
                if let Some(build) = self.builds.single()
                    && self.contradiction(WINDOWS_BUILD_LABEL, &build.to_string()).is_none()
                {
                    let pointer = self.input.pod.at(&format!("/spec/nodeSelector/{}", escape(WINDOWS_BUILD_LABEL)));
                    let edit = Edit::Set { pointer, value: Value::from(build.to_string()) };
                    placed.push("the policy requires nodes of the image's own build", edit, "build");
                }
            }
            // Equality names one build; a pod with several is only kept off those that cannot run it.
            BuildMode::Exact | BuildMode::Compatible => self.exclude_builds(&self.builds.incompatible, placed),
        }
    }

    /// Whether there is a build to require or to exclude, and it is not constrained yet: neither by the author nor by the
    /// RuntimeClass that the pod names, whose selector the API server adds.
    pub fn wants_build(&self) -> bool {
        let hopeless = !self.builds.common || self.builds.incompatible.is_empty();
        let by_class =
            || self.own_runtime_class().is_some_and(|class| class.node_selector.contains_key(WINDOWS_BUILD_LABEL));
        !hopeless && !node_constraints::constrains(&self.input.pod, WINDOWS_BUILD_LABEL) && !by_class()
    }

    /// Required affinity that excludes builds that cannot run the pod. `NotIn` also admits nodes without the label:
    /// autoscaler templates and virtual nodes. Terms are alternatives, so each of them gets it; an additional term
    /// would widen what the author requires.
    fn exclude_builds(&self, builds: &BTreeSet<Build>, placed: &mut PlacementChanges<'_>) {
        let terms = self.input.pod.items(node_constraints::REQUIRED_TERMS);
        if builds.len().saturating_mul(terms.len().max(1)) > MAX_EXCLUSIONS {
            return;
        }
        let values: Vec<String> = builds.iter().map(ToString::to_string).collect();
        let requirement = json!({"key": WINDOWS_BUILD_LABEL, "operator": "NotIn", "values": values});
        let terms_pointer = self.input.pod.at(node_constraints::REQUIRED_TERMS);
        let reason = "nodes of these builds cannot run its images";
        if terms.is_empty() {
            let value = json!([{"matchExpressions": [requirement]}]);
            placed.push(reason, Edit::Set { pointer: terms_pointer, value }, "build");
            return;
        }
        for (index, term) in terms.iter().enumerate() {
            // A term without requirements matches no node; with one it would match some.
            if node_constraints::is_empty_term(term) {
                continue;
            }
            let pointer = format!("{terms_pointer}/{index}/matchExpressions");
            placed.push(reason, Edit::Append { pointer, value: requirement.clone() }, "build");
        }
    }
}

impl WorkloadContext<'_> {
    /// Adds the label with the build of the pod's images, if they have one.
    pub fn add_build_label(&self, placed: &mut PlacementChanges<'_>) {
        let Some(build) = self.builds.single() else { return };
        if self.input.pod.label(IMAGE_BUILD_LABEL).is_none() {
            let pointer = self.input.pod.at(&format!("/metadata/labels/{}", escape(IMAGE_BUILD_LABEL)));
            let edit = Edit::Set { pointer, value: Value::from(build.to_string()) };
            placed.push("its images are for this build", edit, "label");
        }
    }
}
