//! The cache, the look-ups under way, and who waits for them.

use std::collections::HashMap;
use std::fmt;
use std::sync::{Arc, Mutex, PoisonError};
use std::time::Duration;

use moka::policy::EvictionPolicy;
use moka::sync::Cache;
use mullion_engine::model::image::platform::Platforms;
use mullion_engine::model::image::reference::ImageRef;
use tokio::runtime::Handle;
use tokio::sync::{Semaphore, watch};
use tokio::time::{Instant, timeout, timeout_at};

use crate::registry::client::HttpClient;
use crate::registry::credentials::{Credentials, CredentialsKey, Login};
use crate::registry::outcome::{LookupError, Outcome, Outcomes};
use crate::registry::settings::{RegistryError, RegistrySettings};
use crate::registry::source::{Failure, Found, Revision, Source, Target};

/// Registries that are left alone for a while, at most; of more, the ones longest ago are asked again.
const MAX_HELD: u64 = 1_000;
/// Entries of an index that count as one more answer in the cache.
const ENTRIES_PER_WEIGHT: usize = 8;

type Answer = Result<Arc<Platforms>, LookupError>;

/// What registries say, through a cache. Cheap to clone; clones share everything.
#[derive(Clone)]
pub struct Registries(Arc<Inner>);

struct Inner {
    settings: RegistrySettings,
    source: Box<dyn Source>,
    cache: Cache<Key, Arc<Cached>>,
    /// By host.
    held: Cache<Box<str>, Held>,
    flights: Mutex<Flights>,
    background: Semaphore,
    outcomes: Outcomes,
}

/// An image as one who has these credentials sees it.
#[derive(Debug, Clone, PartialEq, Eq, Hash)]
struct Key {
    /// `registry/repository`, then `:tag` or `@digest`.
    reference: Box<str>,
    credentials: CredentialsKey,
}

struct Cached {
    answer: Answer,
    /// Not used from here on, except to find out whether the tag has moved.
    fresh_until: Instant,
    last: Option<Found>,
}

#[derive(Clone)]
struct Held {
    until: Instant,
    error: LookupError,
}

/// Look-ups under way. Each ends by its own: nobody who stops waiting stops it.
#[derive(Default)]
struct Flights {
    under_way: HashMap<Key, watch::Receiver<Option<Answer>>>,
    /// Of which nobody waited when they began.
    background: usize,
}

/// Takes a look-up off the list when it ends, however it ends.
struct Landing {
    inner: Arc<Inner>,
    key: Key,
    urgency: Urgency,
}

#[derive(Clone, Copy, PartialEq, Eq)]
enum Urgency {
    Background,
    Awaited,
}

impl fmt::Debug for Registries {
    fn fmt(&self, out: &mut fmt::Formatter<'_>) -> fmt::Result {
        out.debug_struct("Registries").field("settings", &self.0.settings).finish_non_exhaustive()
    }
}

impl Registries {
    /// Reads the certificates. Asks nobody yet.
    pub fn new(settings: RegistrySettings) -> Result<Self, RegistryError> {
        let client = HttpClient::new(&settings)?;
        Ok(Self::with_source(settings, Box::new(client)))
    }

    fn with_source(settings: RegistrySettings, source: Box<dyn Source>) -> Self {
        let cache = Cache::builder()
            .max_capacity(settings.cache_entries)
            .weigher(|_: &Key, cached: &Arc<Cached>| cached.weight())
            .time_to_live(settings.digest_lifetime.max(settings.tag_lifetime))
            .build();
        Self(Arc::new(Inner {
            source,
            cache,
            held: Cache::builder().max_capacity(MAX_HELD).eviction_policy(EvictionPolicy::lru()).build(),
            flights: Mutex::default(),
            background: Semaphore::new(settings.concurrency.clamp(1, Semaphore::MAX_PERMITS)),
            outcomes: Outcomes::default(),
            settings,
        }))
    }

    /// What the cache knows. Never waits.
    pub fn known(&self, image: &ImageRef<'_>, credentials: &Credentials) -> Option<Arc<Platforms>> {
        let platforms = self.0.fresh(&Key::new(image, credentials))?.answer.clone().ok()?;
        self.0.outcomes.count(Outcome::Hit);
        Some(platforms)
    }

    /// What the cache knew last, past its lifetime too: better than nothing while somebody asks again, or while nobody can.
    /// Nothing where the registry has said since that there is no such image, or not for these credentials.
    pub fn last_known(&self, image: &ImageRef<'_>, credentials: &Credentials) -> Option<Arc<Platforms>> {
        let cached = self.0.cache.get(&Key::new(image, credentials))?;
        match &cached.answer {
            Ok(platforms) => Some(platforms.clone()),
            Err(LookupError::Throttled { .. } | LookupError::Unreachable { .. }) => {
                cached.last.as_ref().map(|found| found.platforms.clone())
            }
            Err(_) => None,
        }
    }

    /// What the cache knows, errors too, else what the registry says before the deadline. A look-up that has not ended by
    /// then goes on and fills the cache. All who ask at one time with the same credentials wait for the same look-up.
    pub async fn resolve(
        &self,
        image: &ImageRef<'_>,
        credentials: &Credentials,
        deadline: Instant,
    ) -> Result<Arc<Platforms>, LookupError> {
        let key = Key::new(image, credentials);
        let mut flight = match self.join(key, image, credentials, Urgency::Awaited) {
            Joined::Known(cached) => {
                self.0.outcomes.count(Outcome::Hit);
                return cached.answer.clone();
            }
            Joined::Flight(flight) => flight,
            Joined::Full => {
                self.0.outcomes.count(Outcome::Dropped);
                return Err(LookupError::Busy);
            }
        };
        match timeout_at(deadline, flight.wait_for(Option::is_some)).await {
            Err(_) => Err(LookupError::Late),
            Ok(Ok(answer)) => answer.clone().unwrap_or(Err(LookupError::Late)),
            Ok(Err(_)) => Err(LookupError::unreachable("the look-up ended without an answer")),
        }
    }

    /// Looks an image up in the background. Does nothing if the answer is known or on its way; if the queue is full the
    /// wish is dropped and counted.
    #[allow(clippy::needless_pass_by_value, reason = "callers are done with them")]
    pub fn want(&self, image: ImageRef<'_>, credentials: Credentials) {
        if let Joined::Full = self.join(Key::new(&image, &credentials), &image, &credentials, Urgency::Background) {
            self.0.outcomes.count(Outcome::Dropped);
        }
    }

    /// How often each outcome came about since the start.
    pub fn outcomes(&self) -> [(Outcome, u64); Outcome::ALL.len()] {
        self.0.outcomes.read()
    }

    /// Look-ups that wait or run.
    pub fn under_way(&self) -> usize {
        self.0.flights().under_way.len()
    }

    fn join(&self, key: Key, image: &ImageRef<'_>, credentials: &Credentials, urgency: Urgency) -> Joined {
        if let Some(cached) = self.0.fresh(&key) {
            return Joined::Known(cached);
        }
        let mut flights = self.0.flights();
        if let Some(flight) = flights.under_way.get(&key) {
            return Joined::Flight(flight.clone());
        }
        // Again: one may have landed since.
        if let Some(cached) = self.0.fresh(&key) {
            return Joined::Known(cached);
        }
        let Ok(runtime) = Handle::try_current() else { return Joined::Full };
        if flights.number(urgency) >= self.0.settings.queue {
            return Joined::Full;
        }
        let (sender, receiver) = watch::channel(None);
        flights.under_way.insert(key.clone(), receiver.clone());
        flights.background += usize::from(urgency == Urgency::Background);
        drop(flights);

        let landing = Landing { inner: self.0.clone(), key, urgency };
        let target = Target::new(image);
        let logins: Vec<_> = credentials.logins(image).cloned().collect();
        runtime.spawn(async move {
            let answer = landing.inner.look_up(&landing.key, &target, &logins, landing.urgency).await;
            // First off the list, then told: who asks again after the answer finds the cache.
            drop(landing);
            sender.send_replace(Some(answer));
        });
        Joined::Flight(receiver)
    }
}

enum Joined {
    Known(Arc<Cached>),
    Flight(watch::Receiver<Option<Answer>>),
    Full,
}

impl Inner {
    fn flights(&self) -> std::sync::MutexGuard<'_, Flights> {
        // Nothing in there can be half done.
        self.flights.lock().unwrap_or_else(PoisonError::into_inner)
    }

    fn fresh(&self, key: &Key) -> Option<Arc<Cached>> {
        self.cache.get(key).filter(|cached| Instant::now() < cached.fresh_until)
    }

    async fn look_up(&self, key: &Key, target: &Target, logins: &[Arc<Login>], urgency: Urgency) -> Answer {
        let _permit = match urgency {
            Urgency::Background => self.background.acquire().await.ok(),
            Urgency::Awaited => None,
        };
        let last = self.cache.get(key).and_then(|cached| cached.last.clone());
        let answer = match self.ask(target, logins, last.as_ref()).await {
            Ok(found) => {
                self.keep(key, target, found.clone());
                Ok(found.platforms)
            }
            Err(error) => {
                let fresh_until = Instant::now() + self.settings.error_lifetime;
                self.cache.insert(key.clone(), Arc::new(Cached { answer: Err(error.clone()), fresh_until, last }));
                Err(error)
            }
        };
        let outcome = Outcome::of(&answer);
        self.outcomes.count(outcome);
        let reason = answer.as_ref().err().map(ToString::to_string).unwrap_or_default();
        tracing::debug!(image = &*key.reference, outcome = outcome.as_str(), reason, "image looked up");
        answer
    }

    async fn ask(&self, target: &Target, logins: &[Arc<Login>], last: Option<&Found>) -> Result<Found, LookupError> {
        if let Some(held) = self.held.get(&target.host) {
            if Instant::now() < held.until {
                return Err(held.error);
            }
            self.held.invalidate(&target.host);
        }
        let failure = match timeout(self.settings.timeout, self.source.fetch(target, logins, last)).await {
            Ok(Ok(found)) => return Ok(found),
            Ok(Err(failure)) => failure,
            Err(_) => Failure::from(LookupError::unreachable("the look-up took too long")),
        };
        let pause = match &failure.error {
            LookupError::Throttled { retry_after } => Some(*retry_after),
            _ if failure.silent => Some(self.settings.error_lifetime),
            _ => None,
        };
        if let Some(pause) = pause {
            let held = Held { until: Instant::now() + pause, error: failure.error.clone() };
            self.held.insert(target.host.clone(), held);
        }
        Err(failure.error)
    }

    /// Under the name that was asked for, and under the digest that a tag stands for.
    fn keep(&self, key: &Key, target: &Target, found: Found) {
        let cached = |lifetime: Duration, found: Found| {
            let fresh_until = Instant::now() + lifetime;
            Arc::new(Cached { answer: Ok(found.platforms.clone()), fresh_until, last: Some(found) })
        };
        if let Revision::Tag(tag) = &target.revision {
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
        let entries = self.answer.as_ref().map_or(0, |platforms| platforms.entries.len());
        u32::try_from(1 + entries / ENTRIES_PER_WEIGHT).unwrap_or(u32::MAX)
    }
}

impl Flights {
    fn number(&self, urgency: Urgency) -> usize {
        match urgency {
            Urgency::Background => self.background,
            Urgency::Awaited => self.under_way.len() - self.background,
        }
    }
}

impl Drop for Landing {
    fn drop(&mut self) {
        let mut flights = self.inner.flights();
        if flights.under_way.remove(&self.key).is_some() {
            flights.background -= usize::from(self.urgency == Urgency::Background);
        }
    }
}

#[cfg(test)]
mod tests {

    #![allow(clippy::unwrap_used, clippy::expect_used, clippy::indexing_slicing, clippy::panic, reason = "tests")]

    use std::sync::atomic::{AtomicUsize, Ordering};

    use mullion_engine::model::image::platform::Platform;
    use tokio::sync::Notify;

    use super::*;
    use crate::registry::source::Fetching;

    /// Versions under which there is nothing.
    const DOWN: usize = usize::MAX;
    const GONE: usize = usize::MAX - 1;

    /// Answers by what it is told to, and counts.
    #[derive(Default)]
    struct Scripted {
        calls: AtomicUsize,
        reused: AtomicUsize,
        running: AtomicUsize,
        most: AtomicUsize,
        open: Gate,
        /// Of what tags stand for.
        version: AtomicUsize,
    }

    /// Closed until opened for good.
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

    impl Source for Shared {
        fn fetch<'a>(&'a self, target: &'a Target, logins: &'a [Arc<Login>], last: Option<&'a Found>) -> Fetching<'a> {
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
                    "silent" => Err(Failure { error: LookupError::unreachable("silence"), silent: true }),
                    "panics" => panic!("as wanted"),
                    _ if version == DOWN => Err(LookupError::unreachable("down").into()),
                    _ if version == GONE => Err(LookupError::Absent.into()),
                    _ => {
                        let digest = match &target.revision {
                            Revision::Digest(digest) => digest.to_string(),
                            Revision::Tag(_) => format!("sha256:{version:064}"),
                        };
                        if let Some(last) = last.filter(|last| *last.digest == digest) {
                            script.reused.fetch_add(1, Ordering::SeqCst);
                            return Ok(last.clone());
                        }
                        let os = format!("{} logins, version {version}", logins.len());
                        let entries = vec![Platform { os, ..Platform::default() }];
                        Ok(Found { digest: digest.into(), platforms: Arc::new(Platforms { entries, index: false }) })
                    }
                }
            })
        }
    }

    fn registries(settings: RegistrySettings) -> (Registries, Arc<Scripted>) {
        let script = Arc::new(Scripted::default());
        (Registries::with_source(settings, Box::new(Shared(script.clone()))), script)
    }

    fn opened(settings: RegistrySettings) -> (Registries, Arc<Scripted>) {
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

    fn counted(registries: &Registries, outcome: Outcome) -> u64 {
        registries.outcomes()[outcome as usize].1
    }

    async fn ask(registries: &Registries, text: &str) -> Answer {
        registries.resolve(&image(text), &Credentials::anonymous(), soon()).await
    }

    async fn landed(registries: &Registries) {
        while registries.under_way() > 0 {
            tokio::time::sleep(Duration::from_millis(1)).await;
        }
    }

    fn said(answer: &Answer) -> &str {
        &answer.as_ref().unwrap().entries[0].os
    }

    #[tokio::test(start_paused = true)]
    async fn one_flight_for_all() {
        let (registries, script) = registries(RegistrySettings::default());
        let asked: Vec<_> = (0..200)
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
        for task in asked {
            task.await.unwrap().unwrap();
        }
        assert_eq!((calls(&script), registries.under_way()), (1, 0));
        assert!(registries.known(&image("r.example/linux:1"), &Credentials::anonymous()).is_some());
        assert_eq!((counted(&registries, Outcome::Found), counted(&registries, Outcome::Dropped)), (1, 0));
    }

    #[tokio::test(start_paused = true)]
    async fn a_tag_is_asked_again_and_a_digest_never() {
        let (registries, script) = opened(RegistrySettings::default());
        assert_eq!(said(&ask(&registries, "r.example/linux:1").await), "0 logins, version 0");
        // The digest that the tag stands for is known by now, and so is the tag under other spellings.
        let digest = format!("r.example/linux@sha256:{:064}", 0);
        ask(&registries, &digest).await.unwrap();
        ask(&registries, &digest.replace('@', ":7@")).await.unwrap();
        assert_eq!(calls(&script), 1);
        tokio::time::advance(Duration::from_secs(301)).await;
        let nobody = Credentials::anonymous();
        assert!(registries.known(&image("r.example/linux:1"), &nobody).is_none());
        assert!(registries.known(&image(&digest), &nobody).is_some());
        assert_eq!(said(&ask(&registries, "r.example/linux:1").await), "0 logins, version 0");
        assert_eq!((calls(&script), script.reused.load(Ordering::SeqCst)), (2, 1));
        tokio::time::advance(Duration::from_secs(301)).await;
        script.version.store(1, Ordering::SeqCst);
        assert_eq!(said(&ask(&registries, "r.example/linux:1").await), "0 logins, version 1");
        assert_eq!((calls(&script), script.reused.load(Ordering::SeqCst)), (3, 1));
        tokio::time::advance(Duration::from_secs(23 * 60 * 60)).await;
        ask(&registries, &digest).await.unwrap();
        assert_eq!(calls(&script), 3);
    }

    #[tokio::test(start_paused = true)]
    async fn what_was_known_last_outlives_its_lifetime_but_no_refusal() {
        let (registries, script) = opened(RegistrySettings::default());
        let (tag, nobody) = (image("r.example/linux:1"), Credentials::anonymous());
        assert!(registries.last_known(&tag, &nobody).is_none());
        ask(&registries, "r.example/linux:1").await.unwrap();
        tokio::time::advance(Duration::from_secs(301)).await;
        assert!(registries.known(&tag, &nobody).is_none());
        assert!(registries.last_known(&tag, &nobody).is_some());
        script.version.store(DOWN, Ordering::SeqCst);
        ask(&registries, "r.example/linux:1").await.unwrap_err();
        assert!(registries.last_known(&tag, &nobody).is_some(), "nobody says that it has changed");
        tokio::time::advance(Duration::from_secs(6)).await;
        script.version.store(GONE, Ordering::SeqCst);
        assert_eq!(ask(&registries, "r.example/linux:1").await, Err(LookupError::Absent));
        assert!(registries.last_known(&tag, &nobody).is_none());
    }

    #[tokio::test(start_paused = true)]
    async fn names_of_docker_hub_are_one() {
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
    async fn a_host_is_left_alone_as_long_as_it_wishes() {
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
        // Silence holds for all images of the host, but only seconds.
        ask(&registries, "quiet.example/silent:1").await.unwrap_err();
        ask(&registries, "quiet.example/linux:1").await.unwrap_err();
        assert_eq!(calls(&script), 4);
        tokio::time::advance(Duration::from_secs(6)).await;
        ask(&registries, "quiet.example/linux:1").await.unwrap();
        assert_eq!(calls(&script), 5);
    }

    #[tokio::test(start_paused = true)]
    async fn answers_are_for_those_who_may_see_them() {
        let (registries, script) = opened(RegistrySettings::default());
        let config = |login: &str| {
            let text = format!(r#"{{"auths": {{"r.example": {{"username": "{login}", "password": "x"}}}}}}"#);
            Credentials::from_dockerconfigjson(text.as_bytes()).unwrap()
        };
        let (anna, berta, nobody) = (config("anna"), config("berta"), Credentials::anonymous());
        let private = image("r.example/linux:1");
        let answer = registries.resolve(&private, &anna, soon()).await;
        assert_eq!(said(&answer), "1 logins, version 0");
        for other in [&berta, &nobody] {
            assert!(registries.known(&private, other).is_none());
            let digest = format!("r.example/linux@sha256:{:064}", 0);
            assert!(registries.known(&image(&digest), other).is_none());
        }
        assert!(registries.known(&private, &config("anna")).is_some());
        registries.resolve(&private, &berta, soon()).await.unwrap();
        assert_eq!(calls(&script), 2);
        // Credentials for another registry are none.
        registries.resolve(&image("other.example/linux:1"), &anna, soon()).await.unwrap();
        assert!(registries.known(&image("other.example/linux:1"), &nobody).is_some());
    }

    #[tokio::test(start_paused = true)]
    async fn the_deadline_is_the_callers_and_the_flight_goes_on() {
        let (registries, script) = registries(RegistrySettings::default());
        let start = Instant::now();
        let deadline = start + Duration::from_millis(30);
        let answer = registries.resolve(&image("r.example/linux:1"), &Credentials::anonymous(), deadline).await;
        assert_eq!(answer, Err(LookupError::Late));
        assert!(start.elapsed() < Duration::from_millis(40), "{:?}", start.elapsed());
        assert_eq!(registries.under_way(), 1);
        script.open.open();
        landed(&registries).await;
        assert!(registries.known(&image("r.example/linux:1"), &Credentials::anonymous()).is_some());
        assert_eq!(calls(&script), 1);
    }

    #[tokio::test(start_paused = true)]
    async fn a_registry_that_hangs_ends_by_the_timeout() {
        let (registries, script) = registries(RegistrySettings::default());
        registries.want(image("r.example/linux:1"), Credentials::anonymous());
        let start = Instant::now();
        landed(&registries).await;
        assert!(start.elapsed() < Duration::from_secs(11), "{:?}", start.elapsed());
        assert_eq!((calls(&script), counted(&registries, Outcome::Unreachable)), (1, 1));
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
        // The forty others, each twice.
        assert_eq!(counted(&registries, Outcome::Dropped), 80);
        // A caller that waits does not stand in that queue.
        let waiting = registries.clone();
        let waiting = tokio::spawn(async move { ask(&waiting, "r.example/other:1").await });
        while calls(&script) < 4 {
            tokio::task::yield_now().await;
        }
        script.open.open();
        waiting.await.unwrap().unwrap();
        landed(&registries).await;
        assert_eq!((calls(&script), counted(&registries, Outcome::Found)), (11, 11));
        assert!(script.most.load(Ordering::SeqCst) <= 4);
        registries.want(image(&images[20]), Credentials::anonymous());
        landed(&registries).await;
        assert_eq!(calls(&script), 12);
    }

    #[tokio::test(start_paused = true)]
    async fn callers_that_wait_are_bounded_too() {
        let settings = RegistrySettings { queue: 1, ..RegistrySettings::default() };
        let (registries, _script) = registries(settings);
        let deadline = Instant::now();
        let resolve = async |text| registries.resolve(&image(text), &Credentials::anonymous(), deadline).await;
        assert_eq!(resolve("r.example/a:1").await, Err(LookupError::Late));
        assert_eq!(resolve("r.example/b:1").await, Err(LookupError::Busy));
    }

    #[tokio::test(start_paused = true)]
    async fn a_panic_is_an_answer_too() {
        let (registries, script) = opened(RegistrySettings::default());
        assert!(matches!(ask(&registries, "r.example/panics:1").await, Err(LookupError::Unreachable(_))));
        assert_eq!(registries.under_way(), 0);
        ask(&registries, "r.example/linux:1").await.unwrap();
        assert_eq!(calls(&script), 2);
    }

    #[test]
    fn without_a_runtime_a_wish_is_dropped() {
        let (registries, script) = opened(RegistrySettings::default());
        registries.want(image("r.example/linux:1"), Credentials::anonymous());
        assert_eq!((calls(&script), counted(&registries, Outcome::Dropped)), (0, 1));
    }

    #[tokio::test(start_paused = true)]
    async fn a_large_index_weighs_more() {
        let cached = |count| Cached {
            answer: Ok(Arc::new(Platforms { entries: vec![Platform::default(); count], index: true })),
            fresh_until: Instant::now(),
            last: None,
        };
        assert_eq!([0, 1, 7, 8, 1_000].map(|count| cached(count).weight()), [1, 1, 1, 2, 126]);
    }
}
