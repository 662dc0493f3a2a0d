//! Look-ups with a cache; concurrent callers wait for the same look-up.

use std::collections::HashMap;
use std::fmt;
use std::sync::{Arc, Mutex, PoisonError};
use std::time::Duration;

use futures::FutureExt as _;
use futures::future::{BoxFuture, Shared};
use moka::sync::Cache;
use mullion_engine::model::image::{ImageRef, Platforms};
use prometheus_client::metrics::counter::Counter;
use prometheus_client::metrics::family::Family;
use tokio::runtime::Handle;
use tokio::sync::{Semaphore, oneshot};
use tokio::time::{Instant, timeout, timeout_at};

use crate::registry::client::HttpClient;
use crate::registry::credentials::{Credentials, CredentialsKey, Login};
use crate::registry::outcome::{LookupError, RegistryOutcome};
use crate::registry::settings::RegistrySettings;
use crate::registry::source::{ImageAnswer, ImageRevision, ImageTarget, LookupFailure, RegistrySource};
use crate::registry::throttling::PausedHosts;
use crate::telemetry::LogLimit;

/// The number of entries of an index that count as one more result in the cache.
const ENTRIES_PER_WEIGHT: usize = 8;

type Answer = Result<ImageAnswer, LookupError>;
/// The answer of a look-up, for every caller that waits for it.
type RunningAnswer = Shared<BoxFuture<'static, Answer>>;

/// Registries with a cache. Cloning is cheap; clones share everything.
#[derive(Clone)]
pub struct RegistryClient(Arc<Inner>);

struct Inner {
    settings: RegistrySettings,
    source: Box<dyn RegistrySource>,
    cache: Cache<Key, Arc<Cached>>,
    paused: PausedHosts,
    look_ups: Mutex<RunningLookups>,
    background: Semaphore,
    outcomes: Family<RegistryOutcome, Counter>,
    refusal_log: LogLimit,
}

/// An image and the credentials with which it is visible.
#[derive(Debug, Clone, PartialEq, Eq, Hash)]
struct Key {
    /// `registry/repository`, then `:tag` or `@digest`.
    reference: Box<str>,
    credentials: CredentialsKey,
}

struct Cached {
    answer: Answer,
    /// After this time it is used only to check whether the tag has moved.
    fresh_until: Instant,
    last: Option<ImageAnswer>,
}

/// Running look-ups. A look-up continues if a caller stops waiting.
#[derive(Default)]
struct RunningLookups {
    under_way: HashMap<Key, RunningAnswer>,
    /// The number of running look-ups that no caller waited for when they began.
    background: usize,
}

/// Removes a look-up from the list when it ends, also after a panic.
struct RunningLookup {
    inner: Arc<Inner>,
    key: Key,
    urgency: Urgency,
}

#[derive(Clone, Copy, PartialEq, Eq)]
enum Urgency {
    Background,
    Awaited,
}

impl fmt::Debug for RegistryClient {
    fn fmt(&self, out: &mut fmt::Formatter<'_>) -> fmt::Result {
        out.debug_struct("Registries").field("settings", &self.0.settings).finish_non_exhaustive()
    }
}

impl RegistryClient {
    /// Reads the certificates. Sends no request.
    pub fn new(settings: RegistrySettings) -> anyhow::Result<Self> {
        Self::counted_in(settings, Family::default())
    }

    /// Does the same as [`new`](Self::new), and counts each outcome in `outcomes`.
    pub fn counted_in(settings: RegistrySettings, outcomes: Family<RegistryOutcome, Counter>) -> anyhow::Result<Self> {
        let client = HttpClient::new(&settings)?;
        Ok(Self::with_source(settings, Box::new(client), outcomes))
    }

    fn with_source(
        settings: RegistrySettings,
        source: Box<dyn RegistrySource>,
        outcomes: Family<RegistryOutcome, Counter>,
    ) -> Self {
        // All exist from the start, as zero.
        for outcome in RegistryOutcome::ALL {
            drop(outcomes.get_or_create(outcome));
        }
        let cache = Cache::builder()
            .max_capacity(settings.cache_entries)
            .weigher(|_: &Key, cached: &Arc<Cached>| cached.weight())
            .time_to_live(settings.digest_lifetime.max(settings.tag_lifetime))
            .build();
        Self(Arc::new(Inner {
            source,
            cache,
            paused: PausedHosts::default(),
            look_ups: Mutex::default(),
            background: Semaphore::new(settings.concurrency.clamp(1, Semaphore::MAX_PERMITS)),
            outcomes,
            refusal_log: LogLimit::default(),
            settings,
        }))
    }

    /// The fresh result in the cache. Does not wait.
    pub fn known(&self, image: &ImageRef<'_>, credentials: &Credentials) -> Option<Arc<Platforms>> {
        let found = self.0.fresh(&Key::new(image, credentials))?.answer.clone().ok()?;
        self.0.outcomes.get_or_create(&RegistryOutcome::Hit).inc();
        Some(found.platforms)
    }

    /// The last result in the cache, even after its lifetime, for use until the next look-up succeeds. `None` if the
    /// registry has reported since that the image does not exist, or not for these credentials.
    pub fn last_known(&self, image: &ImageRef<'_>, credentials: &Credentials) -> Option<Arc<Platforms>> {
        let cached = self.0.cache.get(&Key::new(image, credentials))?;
        match &cached.answer {
            Ok(found) => Some(found.platforms.clone()),
            Err(LookupError::Throttled { .. } | LookupError::Unreachable { .. }) => {
                cached.last.as_ref().map(|found| found.platforms.clone())
            }
            Err(_) => None,
        }
    }

    /// The fresh result in the cache, which can be an error, else the registry's result before the deadline. A look-up
    /// that has not ended by then continues and fills the cache. Concurrent callers with the same credentials wait for
    /// one look-up.
    pub async fn resolve(
        &self,
        image: &ImageRef<'_>,
        credentials: &Credentials,
        deadline: Instant,
    ) -> Result<Arc<Platforms>, LookupError> {
        self.resolve_answer(image, credentials, deadline).await.map(|found| found.platforms)
    }

    /// Does the same as [`resolve`](Self::resolve), and returns everything that the registry reported.
    pub async fn resolve_answer(
        &self,
        image: &ImageRef<'_>,
        credentials: &Credentials,
        deadline: Instant,
    ) -> Result<ImageAnswer, LookupError> {
        let key = Key::new(image, credentials);
        let look_up = match self.join(key, image, credentials, Urgency::Awaited) {
            Joined::Known(cached) => {
                self.0.outcomes.get_or_create(&RegistryOutcome::Hit).inc();
                return cached.answer.clone();
            }
            Joined::Running(look_up) => look_up,
            Joined::Full => {
                self.0.outcomes.get_or_create(&RegistryOutcome::Dropped).inc();
                return Err(LookupError::Busy);
            }
        };
        timeout_at(deadline, look_up).await.unwrap_or(Err(LookupError::Late))
    }

    /// Looks an image up in the background. Does nothing if the result is known or a look-up runs; if the queue is
    /// full, the request is dropped and counted.
    #[allow(clippy::needless_pass_by_value, reason = "callers are done with them")]
    pub fn want(&self, image: ImageRef<'_>, credentials: Credentials) {
        if let Joined::Full = self.join(Key::new(&image, &credentials), &image, &credentials, Urgency::Background) {
            self.0.outcomes.get_or_create(&RegistryOutcome::Dropped).inc();
        }
    }

    /// How often an outcome occurred since the start.
    pub fn count_of(&self, outcome: RegistryOutcome) -> u64 {
        self.0.outcomes.get_or_create(&outcome).get()
    }

    /// Look-ups that wait or run.
    pub fn under_way(&self) -> usize {
        self.0.look_ups().under_way.len()
    }

    fn join(&self, key: Key, image: &ImageRef<'_>, credentials: &Credentials, urgency: Urgency) -> Joined {
        if let Some(cached) = self.0.fresh(&key) {
            return Joined::Known(cached);
        }
        let mut look_ups = self.0.look_ups();
        if let Some(look_up) = look_ups.under_way.get(&key) {
            return Joined::Running(look_up.clone());
        }
        // Checked again, because a look-up can have ended since.
        if let Some(cached) = self.0.fresh(&key) {
            return Joined::Known(cached);
        }
        let Ok(runtime) = Handle::try_current() else { return Joined::Full };
        if look_ups.number(urgency) >= self.0.settings.queue {
            return Joined::Full;
        }
        let (sender, receiver) = oneshot::channel();
        let panicked = |_| Err(LookupError::unreachable("the look-up ended without an answer"));
        let look_up = receiver.map(move |answer| answer.unwrap_or_else(panicked)).boxed().shared();
        look_ups.under_way.insert(key.clone(), look_up.clone());
        look_ups.background += usize::from(urgency == Urgency::Background);
        drop(look_ups);

        let running = RunningLookup { inner: self.0.clone(), key, urgency };
        let target = ImageTarget::new(image);
        let logins: Vec<_> = credentials.logins(image).cloned().collect();
        runtime.spawn(async move {
            let answer = running.inner.look_up(&running.key, &target, &logins, running.urgency).await;
            // Removed from the list before the result is sent, so that a caller that calls again after the result uses
            // the cache.
            drop(running);
            // An error means that no caller waits any more.
            drop(sender.send(answer));
        });
        Joined::Running(look_up)
    }
}

enum Joined {
    Known(Arc<Cached>),
    Running(RunningAnswer),
    Full,
}

impl Inner {
    fn look_ups(&self) -> std::sync::MutexGuard<'_, RunningLookups> {
        // A panic leaves no incomplete change under this lock.
        self.look_ups.lock().unwrap_or_else(PoisonError::into_inner)
    }

    fn fresh(&self, key: &Key) -> Option<Arc<Cached>> {
        self.cache.get(key).filter(|cached| Instant::now() < cached.fresh_until)
    }

    async fn look_up(&self, key: &Key, target: &ImageTarget, logins: &[Arc<Login>], urgency: Urgency) -> Answer {
        let _permit = match urgency {
            Urgency::Background => self.background.acquire().await.ok(),
            Urgency::Awaited => None,
        };
        let last = self.cache.get(key).and_then(|cached| cached.last.clone());
        let answer = match self.ask(target, logins, last.as_ref()).await {
            Ok(found) => {
                self.keep(key, target, found.clone());
                Ok(found)
            }
            Err(error) => {
                let fresh_until = Instant::now() + self.settings.error_lifetime;
                self.cache.insert(key.clone(), Arc::new(Cached { answer: Err(error.clone()), fresh_until, last }));
                Err(error)
            }
        };
        let outcome = RegistryOutcome::of(&answer);
        self.outcomes.get_or_create(&outcome).inc();
        let reason = answer.as_ref().err().map(ToString::to_string).unwrap_or_default();
        if let Err(LookupError::Refused(reason)) = &answer
            && let Some(omitted) = self.refusal_log.pass(std::time::Instant::now())
        {
            let text = "a registry is not queried, because the RegistryPolicy does not allow it";
            tracing::warn!(registry = &*target.registry, %reason, not_logged_since_the_last = omitted, "{text}");
        }
        tracing::debug!(image = &*key.reference, outcome = outcome.name(), reason, "image looked up");
        answer
    }

    async fn ask(
        &self,
        target: &ImageTarget,
        logins: &[Arc<Login>],
        last: Option<&ImageAnswer>,
    ) -> Result<ImageAnswer, LookupError> {
        if !self.settings.lists(&target.registry) {
            let text = format!("spec.registries of the RegistryPolicy does not list {}", target.registry);
            return Err(LookupError::refused(text));
        }
        self.paused.check(&target.host)?;
        let failure = match timeout(self.settings.timeout, self.source.fetch(target, logins, last)).await {
            Ok(Ok(found)) => return Ok(found),
            Ok(Err(failure)) => failure,
            Err(_) => LookupFailure::from(LookupError::unreachable("the look-up took too long")),
        };
        self.paused.pause_after(&failure, &target.host, self.settings.error_lifetime);
        Err(failure.error)
    }

    /// Stores the result under the requested name, and under the digest of a tag.
    fn keep(&self, key: &Key, target: &ImageTarget, found: ImageAnswer) {
        let cached = |lifetime: Duration, found: ImageAnswer| {
            let fresh_until = Instant::now() + lifetime;
            Arc::new(Cached { answer: Ok(found.clone()), fresh_until, last: Some(found) })
        };
        if let ImageRevision::Tag(tag) = &target.revision {
            if let Some(name) = key.reference.strip_suffix(&**tag).and_then(|rest| rest.strip_suffix(':')) {
                let reference = format!("{name}@{}", found.digest).into();
                let by_digest = Key { reference, credentials: key.credentials };
                self.cache.insert(by_digest, cached(self.settings.digest_lifetime, found.clone()));
            }
            self.cache.insert(key.clone(), cached(self.settings.tag_lifetime, found));
        } else {
            self.cache.insert(key.clone(), cached(self.settings.digest_lifetime, found));
        }
    }
}

impl Key {
    fn new(image: &ImageRef<'_>, credentials: &Credentials) -> Self {
        let (registry, repository) = (image.normalized_registry(), image.normalized_repository());
        let reference = match (image.digest(), image.tag()) {
            (Some(digest), _) => format!("{registry}/{repository}@{digest}"),
            (None, tag) => format!("{registry}/{repository}:{}", tag.unwrap_or("latest")),
        };
        Self { reference: reference.into(), credentials: credentials.key_for(image) }
    }
}

impl Cached {
    fn weight(&self) -> u32 {
        let entries = self.answer.as_ref().map_or(0, |found| found.platforms.entries.len());
        u32::try_from(1 + entries / ENTRIES_PER_WEIGHT).unwrap_or(u32::MAX)
    }
}

impl RunningLookups {
    fn number(&self, urgency: Urgency) -> usize {
        match urgency {
            Urgency::Background => self.background,
            Urgency::Awaited => self.under_way.len() - self.background,
        }
    }
}

impl Drop for RunningLookup {
    fn drop(&mut self) {
        let mut look_ups = self.inner.look_ups();
        if look_ups.under_way.remove(&self.key).is_some() {
            look_ups.background -= usize::from(self.urgency == Urgency::Background);
        }
    }
}

#[cfg(test)]
mod tests {

    #![allow(clippy::unwrap_used, clippy::expect_used, clippy::indexing_slicing, clippy::panic, reason = "tests")]

    use std::sync::atomic::{AtomicUsize, Ordering};

    use mullion_engine::model::image::Platform;
    use tokio::sync::Notify;

    use super::*;
    use crate::registry::source::AnswerFuture;

    /// The number for a source without results.
    const DOWN: usize = usize::MAX;
    const GONE: usize = usize::MAX - 1;

    /// Results by repository and version, and counts.
    #[derive(Default)]
    struct Scripted {
        calls: AtomicUsize,
        reused: AtomicUsize,
        running: AtomicUsize,
        most: AtomicUsize,
        open: Gate,
        /// The version that tags point to.
        version: AtomicUsize,
    }

    /// Closed until it is opened once.
    #[derive(Default)]
    struct Gate {
        opened: std::sync::atomic::AtomicBool,
        notify: Notify,
    }

    impl Gate {
        fn open(&self) {
            self.opened.store(true, Ordering::SeqCst);
            self.notify.notify_waiters();
        }

        async fn wait(&self) {
            let notified = self.notify.notified();
            if !self.opened.load(Ordering::SeqCst) {
                notified.await;
            }
        }
    }

    #[derive(Clone)]
    struct Shared(Arc<Scripted>);

    impl RegistrySource for Shared {
        fn fetch<'a>(
            &'a self,
            target: &'a ImageTarget,
            logins: &'a [Arc<Login>],
            last: Option<&'a ImageAnswer>,
        ) -> AnswerFuture<'a> {
            Box::pin(async move {
                let script = &self.0;
                script.calls.fetch_add(1, Ordering::SeqCst);
                let running = script.running.fetch_add(1, Ordering::SeqCst) + 1;
                script.most.fetch_max(running, Ordering::SeqCst);
                script.open.wait().await;
                script.running.fetch_sub(1, Ordering::SeqCst);
                let version = script.version.load(Ordering::SeqCst);
                match &*target.repository {
                    "absent" => Err(LookupError::Absent.into()),
                    "throttled" => Err(LookupError::Throttled { retry_after: Duration::from_secs(120) }.into()),
                    "silent" => Err(LookupFailure { error: LookupError::unreachable("silence"), silent: true }),
                    "panics" => panic!("on purpose"),
                    _ if version == DOWN => Err(LookupError::unreachable("down").into()),
                    _ if version == GONE => Err(LookupError::Absent.into()),
                    _ => {
                        let digest = match &target.revision {
                            ImageRevision::Digest(digest) => digest.to_string(),
                            ImageRevision::Tag(_) => format!("sha256:{version:064}"),
                        };
                        if let Some(last) = last.filter(|last| *last.digest == digest) {
                            script.reused.fetch_add(1, Ordering::SeqCst);
                            return Ok(last.clone());
                        }
                        let os = format!("{} logins, version {version}", logins.len());
                        let entries = vec![Platform { os, ..Platform::default() }];
                        Ok(ImageAnswer {
                            digest: digest.into(),
                            platforms: Arc::new(Platforms { entries, index: false }),
                            pull_bytes: None,
                        })
                    }
                }
            })
        }
    }

    fn registries(settings: RegistrySettings) -> (RegistryClient, Arc<Scripted>) {
        let script = Arc::new(Scripted::default());
        (RegistryClient::with_source(settings, Box::new(Shared(script.clone())), Family::default()), script)
    }

    fn opened(settings: RegistrySettings) -> (RegistryClient, Arc<Scripted>) {
        let (registries, script) = registries(settings);
        script.open.open();
        (registries, script)
    }

    fn image(text: &str) -> ImageRef<'_> {
        ImageRef::parse(text).unwrap()
    }

    fn calls(script: &Scripted) -> usize {
        script.calls.load(Ordering::SeqCst)
    }

    fn soon() -> Instant {
        Instant::now() + Duration::from_secs(1)
    }

    fn counted(registries: &RegistryClient, outcome: RegistryOutcome) -> u64 {
        registries.count_of(outcome)
    }

    type Found = Result<Arc<Platforms>, LookupError>;

    async fn ask(registries: &RegistryClient, text: &str) -> Found {
        registries.resolve(&image(text), &Credentials::anonymous(), soon()).await
    }

    async fn wait_for_look_ups(registries: &RegistryClient) {
        while registries.under_way() > 0 {
            tokio::time::sleep(Duration::from_millis(1)).await;
        }
    }

    fn os_text(answer: &Found) -> &str {
        &answer.as_ref().unwrap().entries[0].os
    }

    #[tokio::test(start_paused = true)]
    async fn concurrent_callers_share_one_look_up() {
        let (registries, script) = registries(RegistrySettings::default());
        let tasks: Vec<_> = (0..200)
            .map(|_| {
                let registries = registries.clone();
                tokio::spawn(async move { ask(&registries, "r.example/linux:1").await })
            })
            .collect();
        while calls(&script) == 0 {
            tokio::task::yield_now().await;
        }
        registries.want(image("r.example/linux:1"), Credentials::anonymous());
        script.open.open();
        for task in tasks {
            task.await.unwrap().unwrap();
        }
        assert_eq!((calls(&script), registries.under_way()), (1, 0));
        assert!(registries.known(&image("r.example/linux:1"), &Credentials::anonymous()).is_some());
        assert_eq!(
            (counted(&registries, RegistryOutcome::Found), counted(&registries, RegistryOutcome::Dropped)),
            (1, 0)
        );
    }

    #[tokio::test(start_paused = true)]
    async fn a_tag_is_looked_up_again_and_a_digest_is_not() {
        let (registries, script) = opened(RegistrySettings::default());
        assert_eq!(os_text(&ask(&registries, "r.example/linux:1").await), "0 logins, version 0");
        // The digest of the tag is known now, and so is the tag in other spellings.
        let digest = format!("r.example/linux@sha256:{:064}", 0);
        ask(&registries, &digest).await.unwrap();
        ask(&registries, &digest.replace('@', ":7@")).await.unwrap();
        assert_eq!(calls(&script), 1);
        tokio::time::advance(Duration::from_secs(301)).await;
        let anonymous = Credentials::anonymous();
        assert!(registries.known(&image("r.example/linux:1"), &anonymous).is_none());
        assert!(registries.known(&image(&digest), &anonymous).is_some());
        assert_eq!(os_text(&ask(&registries, "r.example/linux:1").await), "0 logins, version 0");
        assert_eq!((calls(&script), script.reused.load(Ordering::SeqCst)), (2, 1));
        tokio::time::advance(Duration::from_secs(301)).await;
        script.version.store(1, Ordering::SeqCst);
        assert_eq!(os_text(&ask(&registries, "r.example/linux:1").await), "0 logins, version 1");
        assert_eq!((calls(&script), script.reused.load(Ordering::SeqCst)), (3, 1));
        tokio::time::advance(Duration::from_secs(23 * 60 * 60)).await;
        ask(&registries, &digest).await.unwrap();
        assert_eq!(calls(&script), 3);
    }

    #[tokio::test(start_paused = true)]
    async fn the_last_answer_is_used_after_its_lifetime_but_not_after_absence() {
        let (registries, script) = opened(RegistrySettings::default());
        let (tag, anonymous) = (image("r.example/linux:1"), Credentials::anonymous());
        assert!(registries.last_known(&tag, &anonymous).is_none());
        ask(&registries, "r.example/linux:1").await.unwrap();
        tokio::time::advance(Duration::from_secs(301)).await;
        assert!(registries.known(&tag, &anonymous).is_none());
        assert!(registries.last_known(&tag, &anonymous).is_some());
        script.version.store(DOWN, Ordering::SeqCst);
        ask(&registries, "r.example/linux:1").await.unwrap_err();
        assert!(registries.last_known(&tag, &anonymous).is_some(), "no response shows that it has changed");
        tokio::time::advance(Duration::from_secs(6)).await;
        script.version.store(GONE, Ordering::SeqCst);
        assert_eq!(ask(&registries, "r.example/linux:1").await, Err(LookupError::Absent));
        assert!(registries.last_known(&tag, &anonymous).is_none());
    }

    #[tokio::test(start_paused = true)]
    async fn all_names_of_docker_hub_are_the_same() {
        let (registries, script) = opened(RegistrySettings::default());
        for text in
            ["nginx", "nginx:latest", "library/nginx", "docker.io/nginx", "index.docker.io/library/nginx:latest"]
        {
            ask(&registries, text).await.unwrap();
        }
        assert_eq!(calls(&script), 1);
    }

    #[tokio::test(start_paused = true)]
    async fn errors_last_seconds() {
        let (registries, script) = opened(RegistrySettings::default());
        for _ in 0..3 {
            assert_eq!(ask(&registries, "r.example/absent:1").await, Err(LookupError::Absent));
        }
        registries.want(image("r.example/absent:1"), Credentials::anonymous());
        assert!(registries.known(&image("r.example/absent:1"), &Credentials::anonymous()).is_none());
        assert_eq!(calls(&script), 1);
        tokio::time::advance(Duration::from_secs(6)).await;
        ask(&registries, "r.example/absent:1").await.unwrap_err();
        assert_eq!(calls(&script), 2);
    }

    #[tokio::test(start_paused = true)]
    async fn a_throttling_host_is_not_asked_before_retry_after() {
        let (registries, script) = opened(RegistrySettings::default());
        ask(&registries, "r.example/throttled:1").await.unwrap_err();
        for _ in 0..11 {
            tokio::time::advance(Duration::from_secs(10)).await;
            assert!(matches!(ask(&registries, "r.example/linux:1").await, Err(LookupError::Throttled { .. })));
        }
        assert_eq!(calls(&script), 1);
        ask(&registries, "r.example:5000/linux:1").await.unwrap();
        tokio::time::advance(Duration::from_secs(11)).await;
        ask(&registries, "r.example/linux:1").await.unwrap();
        assert_eq!(calls(&script), 3);
        // An unresponsive host is paused for all its images, but only for seconds.
        ask(&registries, "quiet.example/silent:1").await.unwrap_err();
        ask(&registries, "quiet.example/linux:1").await.unwrap_err();
        assert_eq!(calls(&script), 4);
        tokio::time::advance(Duration::from_secs(6)).await;
        ask(&registries, "quiet.example/linux:1").await.unwrap();
        assert_eq!(calls(&script), 5);
    }

    #[tokio::test(start_paused = true)]
    async fn answers_are_only_for_the_same_credentials() {
        let (registries, script) = opened(RegistrySettings::default());
        let config = |login: &str| {
            let text = format!(r#"{{"auths": {{"r.example": {{"username": "{login}", "password": "x"}}}}}}"#);
            Credentials::from_dockerconfigjson(text.as_bytes()).unwrap()
        };
        let (anna, berta, anonymous) = (config("anna"), config("berta"), Credentials::anonymous());
        let private = image("r.example/linux:1");
        let answer = registries.resolve(&private, &anna, soon()).await;
        assert_eq!(os_text(&answer), "1 logins, version 0");
        for other in [&berta, &anonymous] {
            assert!(registries.known(&private, other).is_none());
            let digest = format!("r.example/linux@sha256:{:064}", 0);
            assert!(registries.known(&image(&digest), other).is_none());
        }
        assert!(registries.known(&private, &config("anna")).is_some());
        registries.resolve(&private, &berta, soon()).await.unwrap();
        assert_eq!(calls(&script), 2);
        // Credentials for another registry do not count.
        registries.resolve(&image("other.example/linux:1"), &anna, soon()).await.unwrap();
        assert!(registries.known(&image("other.example/linux:1"), &anonymous).is_some());
    }

    #[tokio::test(start_paused = true)]
    async fn after_the_callers_deadline_the_look_up_continues() {
        let (registries, script) = registries(RegistrySettings::default());
        let start = Instant::now();
        let deadline = start + Duration::from_millis(30);
        let answer = registries.resolve(&image("r.example/linux:1"), &Credentials::anonymous(), deadline).await;
        assert_eq!(answer, Err(LookupError::Late));
        assert!(start.elapsed() < Duration::from_millis(40), "{:?}", start.elapsed());
        assert_eq!(registries.under_way(), 1);
        script.open.open();
        wait_for_look_ups(&registries).await;
        assert!(registries.known(&image("r.example/linux:1"), &Credentials::anonymous()).is_some());
        assert_eq!(calls(&script), 1);
    }

    #[tokio::test(start_paused = true)]
    async fn a_look_up_that_hangs_ends_by_the_timeout() {
        let (registries, script) = registries(RegistrySettings::default());
        registries.want(image("r.example/linux:1"), Credentials::anonymous());
        let start = Instant::now();
        wait_for_look_ups(&registries).await;
        assert!(start.elapsed() < Duration::from_secs(11), "{:?}", start.elapsed());
        assert_eq!((calls(&script), counted(&registries, RegistryOutcome::Unreachable)), (1, 1));
    }

    #[tokio::test(start_paused = true)]
    async fn the_background_is_bounded() {
        let settings = RegistrySettings { concurrency: 3, queue: 10, ..RegistrySettings::default() };
        let (registries, script) = registries(settings);
        let images: Vec<_> = (0..50).map(|number| format!("r.example/linux:{number}")).collect();
        for text in &images {
            registries.want(image(text), Credentials::anonymous());
            registries.want(image(text), Credentials::anonymous());
        }
        assert_eq!(registries.under_way(), 10);
        // The other forty, each twice.
        assert_eq!(counted(&registries, RegistryOutcome::Dropped), 80);
        // A waiting caller uses another queue.
        let waiting = registries.clone();
        let waiting = tokio::spawn(async move { ask(&waiting, "r.example/other:1").await });
        while calls(&script) < 4 {
            tokio::task::yield_now().await;
        }
        script.open.open();
        waiting.await.unwrap().unwrap();
        wait_for_look_ups(&registries).await;
        assert_eq!((calls(&script), counted(&registries, RegistryOutcome::Found)), (11, 11));
        assert!(script.most.load(Ordering::SeqCst) <= 4);
        registries.want(image(&images[20]), Credentials::anonymous());
        wait_for_look_ups(&registries).await;
        assert_eq!(calls(&script), 12);
    }

    #[tokio::test(start_paused = true)]
    async fn waiting_callers_are_bounded() {
        let settings = RegistrySettings { queue: 1, ..RegistrySettings::default() };
        let (registries, _script) = registries(settings);
        let deadline = Instant::now();
        let resolve = async |text| registries.resolve(&image(text), &Credentials::anonymous(), deadline).await;
        assert_eq!(resolve("r.example/a:1").await, Err(LookupError::Late));
        assert_eq!(resolve("r.example/b:1").await, Err(LookupError::Busy));
    }

    #[tokio::test(start_paused = true)]
    async fn a_panic_is_an_error_for_the_caller() {
        let (registries, script) = opened(RegistrySettings::default());
        assert!(matches!(ask(&registries, "r.example/panics:1").await, Err(LookupError::Unreachable(_))));
        assert_eq!(registries.under_way(), 0);
        ask(&registries, "r.example/linux:1").await.unwrap();
        assert_eq!(calls(&script), 2);
    }

    #[test]
    fn without_a_runtime_a_request_is_dropped() {
        let (registries, script) = opened(RegistrySettings::default());
        registries.want(image("r.example/linux:1"), Credentials::anonymous());
        assert_eq!((calls(&script), counted(&registries, RegistryOutcome::Dropped)), (0, 1));
    }

    #[tokio::test(start_paused = true)]
    async fn a_large_index_weighs_more() {
        let cached = |count| Cached {
            answer: Ok(ImageAnswer {
                digest: "".into(),
                platforms: Arc::new(Platforms { entries: vec![Platform::default(); count], index: true }),
                pull_bytes: None,
            }),
            fresh_until: Instant::now(),
            last: None,
        };
        assert_eq!([0, 1, 7, 8, 1_000].map(|count| cached(count).weight()), [1, 1, 1, 2, 126]);
    }
}
