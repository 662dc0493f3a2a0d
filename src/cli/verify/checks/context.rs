//! What a check has: the cluster, the facts, and what the policies in force would make of an object.

use kube::Client;
use mullion_engine::model::settings::Mode;
use mullion_engine::model::windows::Build;
use mullion_engine::model::{Requester, ReviewRequest, WorkloadKind, WorkloadObject};
use serde_json::Value;

use crate::cli::live::WebhookCall;
use crate::cli::verify::arguments::VerifyArgs;
use crate::cli::verify::checks::outcome::CheckOutcome;
use crate::cli::verify::facts::ClusterFacts;
use crate::cli::verify::fleet::Fleet;
use crate::cli::verify::requests::create;
use crate::cli::verify::scenarios::{Images, windows_pod};
use crate::cluster::reading::{ClusterReader, Kind};
use crate::report::Admission;

/// Everything that checks share.
pub(in crate::cli::verify) struct CheckContext<'a> {
    pub(in crate::cli::verify) client: &'a Client,
    pub(in crate::cli::verify) reader: ClusterReader<'a>,
    pub(in crate::cli::verify) facts: &'a ClusterFacts,
    pub(in crate::cli::verify) args: &'a VerifyArgs,
    pub(in crate::cli::verify) images: &'a Images,
    /// The namespace of the objects.
    pub(in crate::cli::verify) namespace: &'a str,
    /// The namespace that is exempt.
    pub(in crate::cli::verify) exempt: &'a str,
}

impl<'a> CheckContext<'a> {
    /// The nodes, or the outcome without them.
    pub(super) fn fleet(&self) -> Result<&'a Fleet, CheckOutcome> {
        self.facts.fleet.as_ref().map_err(|why| CheckOutcome::skipped(format!("nodes not known: {why}")))
    }

    /// The newest build of the fleet for which there is an image, with the image.
    pub(super) fn newest(&self) -> Result<(Build, String), CheckOutcome> {
        let builds = self.fleet()?.builds();
        let newest = builds.iter().rev().find_map(|build| Some((*build, self.images.windows(*build)?)));
        newest
            .ok_or_else(|| CheckOutcome::skipped("no Windows node has a build with an image; set --image windows=REF"))
    }

    /// An image of Windows, for what needs no node.
    pub(super) fn any_windows_image(&self) -> String {
        let newest = self.newest().ok().map(|(_, image)| image);
        newest.or_else(|| self.images.windows(Build::new(20_348))).unwrap_or_default()
    }

    /// What Mullion does with the object under the policies in force; `None` if they are not known.
    pub(super) fn foreseen(&self, kind: WorkloadKind, object: &Value, namespace: &str) -> Option<Admission> {
        let policies = &self.facts.policies.as_ref().ok()?.set;
        let workload = WorkloadObject { kind, namespace, object };
        let request = ReviewRequest { requester: Requester::Other, ..ReviewRequest::creation(workload) };
        Some(Admission::new(&request, &self.facts.snapshot, policies))
    }

    /// A failed outcome counts only if the policies in force ask for what was not seen. `asks`: whether what Mullion does under
    /// them is what the check expects.
    pub(super) fn under_policies(
        &self,
        outcome: CheckOutcome,
        kind: WorkloadKind,
        object: &Value,
        asks: impl Fn(&Admission) -> bool,
    ) -> CheckOutcome {
        use crate::report::verify::VerifyStatus;

        let foreseen = || self.foreseen(kind, object, self.namespace);
        if outcome.status == VerifyStatus::Failed && foreseen().is_some_and(|foreseen| !asks(&foreseen)) {
            return CheckOutcome::skipped("policy: the policies in force do not ask for this");
        }
        outcome
    }

    /// What the API server would store, or the outcome without it.
    pub(super) async fn dry_run(&self, kind: &'static Kind, object: &Value) -> Result<Value, CheckOutcome> {
        let answer = create(self.client, kind, self.namespace, object, true).await;
        answer.map_err(|refused| CheckOutcome::refused(&refused))
    }

    /// Why Mullion does not act on pods of the namespace: an excluded namespace, or a mode other than Enforce.
    pub(in crate::cli::verify) fn without_effect(&self) -> Option<String> {
        let pod = windows_pod("webhook-called", &self.any_windows_image());
        let workload = WorkloadObject { kind: WorkloadKind::Pod, namespace: self.namespace, object: &pod };
        let registration = self.facts.registration.as_ref().ok().and_then(Option::as_ref);
        if let Some(WebhookCall::NotCalled(why)) =
            registration.map(|registration| registration.call(&workload, &self.facts.snapshot.namespaces))
        {
            return Some(why);
        }
        let policies = &self.facts.policies.as_ref().ok()?.set;
        let settings = policies.resolve(&ReviewRequest::creation(workload), &self.facts.snapshot);
        match settings.new.mode {
            Mode::Enforce => None,
            Mode::Audit => Some("the policies in force set mode: Audit for this namespace".to_owned()),
            Mode::Disabled => Some("the policies in force set mode: Disabled for this namespace".to_owned()),
        }
    }
}
