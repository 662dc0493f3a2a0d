//! What a review wants to know of images, and who is asked for it.
//!
//! | `detect.registry.lookup` | the review |
//! |---|---|
//! | `Never` | nobody is asked; nothing of this is reached |
//! | `Background` | is answered at once from what is known; the rest is asked for afterwards, and counts for the next pod |
//! | `Inline` | waits for what is not known, until its [deadline](patience); what is late counts for the next pod |

use std::pin::Pin;
use std::sync::{Arc, Mutex, PoisonError};
use std::time::Duration;
use std::{fmt, iter};

use arc_swap::ArcSwap;
use futures::future::join_all;
use mullion_engine::model::image::platform::{KnownImages, Platforms};
use mullion_engine::model::image::reference::ImageRef;
use mullion_engine::model::pod_view::Pod;
use mullion_engine::model::settings::workload_settings::Lookup;
use mullion_policy::policy_set::PolicySet;
use mullion_policy::registry_policy::RegistryPolicy;
use tokio::time::Instant;

use crate::telemetry::metrics::{LookupOutcome, Metrics};

/// The longest that a review waits for registries.
const LONGEST: Duration = Duration::from_millis(800);

/// Most pull secrets of one pod that are looked at, and their longest name, which is Kubernetes' own limit.
const MOST_SECRETS: usize = 16;
const LONGEST_NAME: usize = 253;

/// An answer that takes its time.
pub type Answering<'a> = Pin<Box<dyn Future<Output = Option<Arc<Platforms>>> + Send + 'a>>;

/// Who knows what images are, or can find out. A seam, so that tests can see what becomes of answers that come late or
/// never.
pub trait PlatformSource: fmt::Debug + Send + Sync {
    /// What is known now to whoever has these secrets. Takes no time.
    fn known(&self, image: &ImageRef<'_>, secrets: &PullSecrets) -> Option<Arc<Platforms>>;

    /// What was known last, which may have changed since. Takes no time.
    fn last_known(&self, image: &ImageRef<'_>, secrets: &PullSecrets) -> Option<Arc<Platforms>>;

    /// Asks for an image that a later review will want. Takes no time.
    fn want(&self, image: &ImageRef<'_>, secrets: &PullSecrets);

    /// Asks, and waits for the answer, until the deadline at most; `None` if there is none by then, or none at all. An
    /// answer that comes later is known then.
    fn resolve<'a>(&'a self, image: &'a ImageRef<'a>, secrets: &'a PullSecrets, deadline: Instant) -> Answering<'a>;

    /// How often each kind of answer was given so far, for metrics.
    fn outcomes(&self) -> Vec<(&'static str, u64)>;
}

/// The pull secrets that a pod names, by whose leave its images are asked for. What one pod may see is never told to
/// another that names other secrets.
#[derive(Debug, Clone, Default, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct PullSecrets {
    /// Where they are.
    pub namespace: String,
    /// `spec.imagePullSecrets`, those of its service account included, which the API server has added by then.
    pub names: Vec<String>,
}

/// Makes who is asked from how the policies say it is done.
pub type Maker = Box<dyn Fn(&RegistryPolicy) -> anyhow::Result<Arc<dyn PlatformSource>> + Send + Sync>;

/// Who is asked; [nobody](Self::default) at first.
#[derive(Default)]
pub struct Images {
    /// The newest first. While policies are replaced, there are those of the old ones and those of the new ones.
    made: ArcSwap<Vec<Made>>,
    maker: Option<Maker>,
    /// Held while they are replaced.
    following: Mutex<()>,
}

/// Who is asked under some policies.
#[derive(Debug, Clone)]
struct Made {
    /// [`PolicySet::hash`] of these.
    hash: String,
    /// How they have it asked; `None`: not at all.
    policy: Option<RegistryPolicy>,
    source: Option<Arc<dyn PlatformSource>>,
}

impl fmt::Debug for Images {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_tuple("Images").field(&self.made).finish()
    }
}

impl Images {
    /// Always the same.
    pub fn fixed(source: Arc<dyn PlatformSource>) -> Self {
        let made = Made { hash: String::new(), policy: None, source: Some(source) };
        Self { made: ArcSwap::from_pointee(vec![made]), ..Self::default() }
    }

    /// As the policies say, once they were [followed](Self::follow).
    pub fn made_by(maker: Maker) -> Self {
        Self { maker: Some(maker), ..Self::default() }
    }

    /// Who is asked now.
    pub fn source(&self) -> Option<Arc<dyn PlatformSource>> {
        self.made.load().first().and_then(|made| made.source.clone())
    }

    /// The policies in force, and who is asked while they are: what one review works with to its end.
    pub fn beside(&self, policies: &ArcSwap<PolicySet>) -> (Arc<PolicySet>, Option<Arc<dyn PlatformSource>>) {
        let mut set = policies.load_full();
        loop {
            let made = self.made.load();
            if let Some(found) = made.iter().find(|made| self.maker.is_none() || made.hash == set.hash) {
                return (set, found.source.clone());
            }
            // Replaced between the two looks; or nobody was ever to be asked.
            let newest = policies.load_full();
            if Arc::ptr_eq(&newest, &set) {
                return (set, None);
            }
            set = newest;
        }
    }

    /// Sees to it that registries are asked as these policies say, once `put` has put them in force, and until then as those
    /// before say. What is known so far is kept, unless they are asked in another way. After an error nobody is asked.
    pub fn follow(&self, policies: &PolicySet, put: impl FnOnce()) -> anyhow::Result<()> {
        let Some(maker) = &self.maker else {
            put();
            return Ok(());
        };
        let _following = self.following.lock().unwrap_or_else(PoisonError::into_inner);
        let standing = self.made.load_full();
        let wanted = Some(&policies.registries).filter(|_| policies.asks_registries());
        // Who could not be made is tried again.
        let same = |made: &&Made| made.policy.as_ref() == wanted && (wanted.is_none() || made.source.is_some());
        let (source, outcome) = match standing.iter().find(same) {
            Some(made) => (made.source.clone(), Ok(())),
            None => match wanted.map(maker).transpose() {
                Ok(source) => (source, Ok(())),
                Err(error) => (None, Err(error)),
            },
        };
        let made = Made { hash: policies.hash.clone(), policy: wanted.cloned(), source };
        let both = iter::once(made.clone()).chain(standing.iter().cloned()).collect();
        self.made.store(Arc::new(both));
        put();
        self.made.store(Arc::new(vec![made]));
        outcome
    }
}

impl PullSecrets {
    /// Those of a pod, or of a template's pods.
    pub fn of(pod: &Pod<'_>, namespace: &str) -> Self {
        let mut names: Vec<String> = Vec::new();
        for name in pod.items("/spec/imagePullSecrets").iter().filter_map(|item| item.get("name")?.as_str()) {
            let new = !name.is_empty() && name.len() <= LONGEST_NAME && !names.iter().any(|known| known == name);
            if new && names.len() < MOST_SECRETS {
                names.push(name.to_owned());
            }
        }
        Self { namespace: namespace.to_owned(), names }
    }
}

/// How long a review may wait for registries: half of what its caller gives it, because there is more to do than to wait.
pub fn patience(budget: Duration) -> Duration {
    (budget / 2).min(LONGEST)
}

/// Finds out what it can of the `wanted` references: at once, or until `deadline` if the mode lets it wait.
pub(crate) async fn ask(
    source: &dyn PlatformSource,
    wanted: &[String],
    secrets: &PullSecrets,
    lookup: Lookup,
    deadline: Instant,
    metrics: &Metrics,
) -> KnownImages {
    let mut found = KnownImages::new();
    let mut missing = Vec::new();
    let references = wanted.iter().filter_map(|text| Some((text, ImageRef::parse(text).ok()?)));
    for (text, image) in references {
        match source.known(&image, secrets) {
            Some(platforms) => {
                metrics.image_lookup(LookupOutcome::Known);
                found.insert(text.clone(), platforms);
            }
            None => missing.push((text, image)),
        }
    }
    if lookup == Lookup::Inline {
        let answers = join_all(missing.iter().map(|(_, image)| source.resolve(image, secrets, deadline))).await;
        for ((text, _), answer) in missing.iter().zip(answers) {
            metrics.image_lookup(if answer.is_some() { LookupOutcome::Resolved } else { LookupOutcome::Late });
            found.extend(answer.map(|platforms| ((*text).clone(), platforms)));
        }
    } else {
        for (_, image) in &missing {
            metrics.image_lookup(LookupOutcome::Queued);
            source.want(image, secrets);
        }
    }
    // What was right a while ago is better than nothing: or a pod that comes more seldom than tags are kept would never
    // profit from the background, and a registry that is down would leave its images unknown.
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
    fn half_of_the_time_and_never_long() {
        for (budget, expected) in [(1_000, 500), (2_000, 800), (10_000, 800), (30_000, 800), (100, 50), (0, 0)] {
            assert_eq!(patience(Duration::from_millis(budget)), Duration::from_millis(expected));
        }
    }
}
