//! Platforms of images that a review needs, and the source that looks them up.
//!
//! | `detect.registry.lookup` | the review |
//! |---|---|
//! | `Never` | uses no source |
//! | `Background` | gets its response at once from what is known; the rest is looked up afterwards, for the next pod |
//! | `Inline` | waits for unknown images until its [deadline](wait_limit); a late answer counts for the next pod |

use std::fmt;
use std::pin::Pin;
use std::sync::Arc;
use std::time::Duration;

use futures::future::join_all;
use mullion_engine::model::image::{ImageRef, KnownImages, Platforms};
use mullion_engine::model::pod_view::Pod;
use mullion_engine::model::settings::Lookup;
use tokio::time::Instant;

use crate::webhook::envelope::{NamespaceName, SecretName};
use crate::webhook::metrics::{LookupOutcome, RequestMetrics};

/// The longest time that a review waits for registries.
const LONGEST: Duration = Duration::from_millis(800);

/// The maximum number of pull secrets of one pod that are read.
const MOST_SECRETS: usize = 16;

/// The platforms of one image, once a registry has reported them.
pub type PlatformFuture<'a> = Pin<Box<dyn Future<Output = Option<Arc<Platforms>>> + Send + 'a>>;

/// A source of the platforms of images. A trait, so that tests can check results that come late or never.
pub trait PlatformSource: fmt::Debug + Send + Sync {
    /// The platforms that are currently known for a pod with these secrets. Does not wait.
    fn known(&self, image: &ImageRef<'_>, secrets: &PullSecrets) -> Option<Arc<Platforms>>;

    /// The last known platforms, which may have changed since. Does not wait.
    fn last_known(&self, image: &ImageRef<'_>, secrets: &PullSecrets) -> Option<Arc<Platforms>>;

    /// Looks an image up for later reviews. Does not wait.
    fn want(&self, image: &ImageRef<'_>, secrets: &PullSecrets);

    /// Looks an image up and waits for the result, at most until the deadline; `None` if there is no result by then.
    /// Later reviews use a later result.
    fn resolve<'a>(
        &'a self,
        image: &'a ImageRef<'a>,
        secrets: &'a PullSecrets,
        deadline: Instant,
    ) -> PlatformFuture<'a>;
}

/// The pull secrets in a pod, with which its images are looked up. A pod with other secrets never gets the result.
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct PullSecrets(Option<(NamespaceName, Vec<SecretName>)>);

impl PullSecrets {
    /// No pull secrets.
    pub fn none() -> Self {
        Self(None)
    }

    /// The pull secrets of a pod, or of a template's pods: `spec.imagePullSecrets`, including those of its service
    /// account, which the API server has already added.
    pub fn of(pod: &Pod<'_>, namespace: &NamespaceName) -> Self {
        let items = pod.items("/spec/imagePullSecrets").iter();
        let mut names: Vec<SecretName> = Vec::new();
        for name in items.filter_map(|item| SecretName::new(item.get("name")?.as_str()?)) {
            if names.len() < MOST_SECRETS && !names.contains(&name) {
                names.push(name);
            }
        }
        Self((!names.is_empty()).then(|| (namespace.clone(), names)))
    }

    /// The length of all names, in bytes.
    pub(crate) fn length(&self) -> usize {
        let lengths =
            self.names().map(|(namespace, names)| namespace.len() + names.iter().map(|name| name.len()).sum::<usize>());
        lengths.unwrap_or_default()
    }

    /// Their namespace and names; `None` if there are none.
    pub fn names(&self) -> Option<(&NamespaceName, &[SecretName])> {
        self.0.as_ref().map(|(namespace, names)| (namespace, &**names))
    }
}

/// How long a review may wait for registries: half of the time that its caller allows, because the review itself also
/// takes time.
pub fn wait_limit(budget: Duration) -> Duration {
    (budget / 2).min(LONGEST)
}

/// The platforms of the `wanted` references, immediately, or by `deadline` if the mode lets the review wait.
pub(crate) async fn look_up(
    source: &dyn PlatformSource,
    wanted: &[String],
    secrets: &PullSecrets,
    lookup: Lookup,
    deadline: Instant,
    metrics: &RequestMetrics,
) -> KnownImages {
    let count = |outcome| metrics.image_lookups.get_or_create(&outcome).inc();
    let mut found = KnownImages::new();
    let mut missing = Vec::new();
    let references = wanted.iter().filter_map(|text| Some((text, ImageRef::parse(text).ok()?)));
    for (text, image) in references {
        match source.known(&image, secrets) {
            Some(platforms) => {
                count(LookupOutcome::Known);
                found.insert(text.clone(), platforms);
            }
            None => missing.push((text, image)),
        }
    }
    if lookup == Lookup::Inline {
        let answers = join_all(missing.iter().map(|(_, image)| source.resolve(image, secrets, deadline))).await;
        for ((text, _), answer) in missing.iter().zip(answers) {
            count(if answer.is_some() { LookupOutcome::Resolved } else { LookupOutcome::Late });
            found.extend(answer.map(|platforms| ((*text).clone(), platforms)));
        }
    } else {
        for (_, image) in &missing {
            count(LookupOutcome::Queued);
            source.want(image, secrets);
        }
    }
    // An earlier result is better than none. Otherwise a pod that is created less often than tags expire would never
    // use the result of a background look-up, and images of a registry that is down would be unknown.
    for (text, image) in missing {
        if !found.contains_key(text) {
            found.extend(source.last_known(&image, secrets).map(|platforms| (text.clone(), platforms)));
        }
    }
    found
}

#[cfg(test)]
mod tests {

    use super::*;

    #[test]
    fn a_review_waits_half_of_its_time_and_at_most_800_ms() {
        for (budget, expected) in [(1_000, 500), (2_000, 800), (10_000, 800), (30_000, 800), (100, 50), (0, 0)] {
            assert_eq!(wait_limit(Duration::from_millis(budget)), Duration::from_millis(expected));
        }
    }
}
