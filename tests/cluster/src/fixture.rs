//! Fixtures, which trials need and which are expensive to start: a control plane, with or without Mullion.
//!
//! A fixture starts when the first trial needs it, and stops after the last trial that needs it: an idle control
//! plane takes 4 % of a processor and 0.7 GB.

use std::path::PathBuf;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::sync::{Arc, Mutex, PoisonError};

use anyhow::{Context as _, Result, anyhow};
use futures::future::BoxFuture;
use tokio::sync::{OwnedSemaphorePermit, Semaphore};

use crate::plane::ControlPlane;

/// The number of fixtures of a program that start at the same time: a start keeps two processors busy.
const STARTS: usize = 2;
static STARTING: Semaphore = Semaphore::const_new(STARTS);

/// A fixture that trials share or use in turn.
pub trait Fixture: Send + Sync + Sized + 'static {
    /// Keeps the logs of its processes; returns the folders that will contain them.
    fn keep_logs(&self) -> Vec<PathBuf>;

    /// Removes what a trial has left, before another one in a [`Pool`] gets it.
    fn clean(&self) -> impl Future<Output = Result<()>> + Send {
        std::future::ready(Ok(()))
    }
}

impl Fixture for ControlPlane {
    fn keep_logs(&self) -> Vec<PathBuf> {
        vec![Self::keep_logs(self)]
    }

    async fn clean(&self) -> Result<()> {
        self.sweep().await
    }
}

type Start<T> = Box<dyn Fn() -> BoxFuture<'static, Result<T>> + Send + Sync>;

async fn start<T>(how: &Start<T>) -> Result<T> {
    let _permit = STARTING.acquire().await?;
    how().await.context("its fixture does not start")
}

/// Stopping waits for processes, so it has a thread; ending tasks needs their runtime.
fn stop<T: Send + 'static>(fixture: T) {
    match tokio::runtime::Handle::try_current() {
        Ok(runtime) => drop(runtime.spawn_blocking(move || drop(fixture))),
        Err(_) => drop(fixture),
    }
}

fn lock<T>(mutex: &Mutex<T>) -> std::sync::MutexGuard<'_, T> {
    mutex.lock().unwrap_or_else(PoisonError::into_inner)
}

/// The number of trials that use a shared fixture at the same time: more would delay those of other fixtures.
const SHARERS: usize = 4;

/// One fixture for many trials at the same time: started by the first, stopped after the last.
pub struct Shared<T> {
    pub(crate) sharers: Semaphore,
    start: Start<T>,
    state: tokio::sync::Mutex<Option<Result<Arc<T>, String>>>,
    users: AtomicUsize,
}

impl<T: Fixture> Shared<T> {
    /// A fixture that starts in this way.
    pub fn new<F: Future<Output = Result<T>> + Send + 'static>(
        start: impl Fn() -> F + Send + Sync + 'static,
    ) -> Arc<Self> {
        let start: Start<T> = Box::new(move || Box::pin(start()));
        let sharers = Semaphore::new(SHARERS);
        Arc::new(Self { sharers, start, state: tokio::sync::Mutex::default(), users: AtomicUsize::new(0) })
    }

    /// Stops it, even if trials still use it.
    pub(crate) fn stop(&self) {
        if let Ok(mut state) = self.state.try_lock()
            && let Some(Ok(fixture)) = state.take()
        {
            stop(fixture);
        }
    }

    /// One more trial, or another fixture, that needs it.
    pub fn user(shared: &Arc<Self>) -> SharedUser<T> {
        shared.users.fetch_add(1, Ordering::SeqCst);
        SharedUser { shared: Arc::clone(shared) }
    }
}

/// Permission to use a [`Shared`] fixture. Dropping the last one stops the fixture.
pub struct SharedUser<T: Fixture> {
    shared: Arc<Shared<T>>,
}

impl<T: Fixture> SharedUser<T> {
    /// The fixture. A failed start is not retried for every trial.
    pub async fn get(&self) -> Result<Arc<T>> {
        let mut state = self.shared.state.lock().await;
        if state.is_none() {
            *state = Some(start(&self.shared.start).await.map(Arc::new).map_err(|error| format!("{error:#}")));
        }
        match state.as_ref() {
            Some(Ok(fixture)) => Ok(Arc::clone(fixture)),
            Some(Err(error)) => Err(anyhow!("{error}")),
            None => Err(anyhow!("it is started above")),
        }
    }
}

impl<T: Fixture> Drop for SharedUser<T> {
    fn drop(&mut self) {
        if self.shared.users.fetch_sub(1, Ordering::SeqCst) == 1 {
            self.shared.stop();
        }
    }
}

/// Fixtures that trials use exclusively, one after the other, with a maximum number at the same time.
///
/// A trial that passes leaves its fixture to the next one, which cleans it first. The fixture of a trial that fails is
/// discarded, because its state is unknown.
pub struct Pool<T> {
    start: Start<T>,
    permits: Arc<Semaphore>,
    free: Mutex<Vec<Arc<T>>>,
    /// Trials that have not had their fixture yet.
    expected: AtomicUsize,
}

impl<T: Fixture> Pool<T> {
    /// At most `limit` fixtures that start in this way.
    pub fn new<F: Future<Output = Result<T>> + Send + 'static>(
        limit: usize,
        start: impl Fn() -> F + Send + Sync + 'static,
    ) -> Arc<Self> {
        let (start, permits): (Start<T>, _) = (Box::new(move || Box::pin(start())), Arc::new(Semaphore::new(limit)));
        Arc::new(Self { start, permits, free: Mutex::default(), expected: AtomicUsize::new(0) })
    }

    /// Stops the free fixtures, even if trials still need them.
    pub(crate) fn stop(&self) {
        lock(&self.free).drain(..).for_each(stop);
    }

    /// One more trial that needs a fixture.
    pub(crate) fn expect(&self) {
        self.expected.fetch_add(1, Ordering::SeqCst);
    }

    /// The fixture of an expected trial, once one is free or may be started.
    pub(crate) async fn take(self: &Arc<Self>) -> Result<Turn<T>> {
        let permit = Arc::clone(&self.permits).acquire_owned().await?;
        self.expected.fetch_sub(1, Ordering::SeqCst);
        let free = lock(&self.free).pop();
        if let Some(fixture) = free {
            match fixture.clean().await {
                Ok(()) => return Ok(Turn { pool: Arc::clone(self), fixture, _permit: permit }),
                Err(why) => {
                    #[allow(clippy::print_stderr, reason = "no trial has failed, but somebody should know")]
                    {
                        eprintln!("a fixture cannot be cleaned, and another one is started: {why:#}");
                    }
                    stop(fixture);
                }
            }
        }
        Ok(Turn { pool: Arc::clone(self), fixture: Arc::new(start(&self.start).await?), _permit: permit })
    }
}

/// A fixture of a [`Pool`] while one trial has it.
pub(crate) struct Turn<T: Fixture> {
    pool: Arc<Pool<T>>,
    fixture: Arc<T>,
    _permit: OwnedSemaphorePermit, // last, so that the next trial finds the fixture
}

impl<T: Fixture> Turn<T> {
    pub(crate) fn fixture(&self) -> &Arc<T> {
        &self.fixture
    }

    /// The trial has passed: the next trial gets the fixture, if there is one.
    pub(crate) fn give_back(self) {
        let mut free = lock(&self.pool.free);
        if free.len() < self.pool.expected.load(Ordering::SeqCst) {
            free.push(self.fixture);
        } else {
            stop(self.fixture);
        }
    }

    /// The trial has failed. Returns where the logs are.
    pub(crate) fn throw_away(self) -> Vec<PathBuf> {
        let logs = self.fixture.keep_logs();
        stop(self.fixture);
        logs
    }
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used, reason = "tests")]
    use std::sync::atomic::AtomicBool;

    use anyhow::bail;

    use super::*;

    #[derive(Default)]
    struct Counts {
        started: AtomicUsize,
        stopped: AtomicUsize,
        cleaned: AtomicUsize,
        dirty: AtomicBool,
    }

    struct Counted(Arc<Counts>);

    impl Fixture for Counted {
        fn keep_logs(&self) -> Vec<PathBuf> {
            vec![PathBuf::from("logs")]
        }

        async fn clean(&self) -> Result<()> {
            self.0.cleaned.fetch_add(1, Ordering::SeqCst);
            if self.0.dirty.load(Ordering::SeqCst) {
                bail!("dirty");
            }
            Ok(())
        }
    }

    impl Drop for Counted {
        fn drop(&mut self) {
            self.0.stopped.fetch_add(1, Ordering::SeqCst);
        }
    }

    fn numbers(counts: &Counts) -> [usize; 3] {
        [&counts.started, &counts.stopped, &counts.cleaned].map(|number| number.load(Ordering::SeqCst))
    }

    /// Fixtures stop on a thread of their own.
    async fn until(counts: &Counts, expected: [usize; 3]) {
        let seen = async || if numbers(counts) == expected { Ok(()) } else { Err(format!("{:?}", numbers(counts))) };
        crate::wait_for("the fixtures to stop", std::time::Duration::from_secs(60), seen).await.unwrap();
    }

    fn starts(counts: &Arc<Counts>) -> impl Fn() -> std::future::Ready<Result<Counted>> + Send + Sync + 'static {
        let counts = Arc::clone(counts);
        move || {
            counts.started.fetch_add(1, Ordering::SeqCst);
            std::future::ready(Ok(Counted(Arc::clone(&counts))))
        }
    }

    #[tokio::test]
    async fn a_shared_fixture_runs_from_the_first_user_to_the_last() {
        let counts = Arc::new(Counts::default());
        let shared = Shared::new(starts(&counts));
        let (one, other, third) = (Shared::user(&shared), Shared::user(&shared), Shared::user(&shared));
        drop(third);
        assert_eq!(numbers(&counts), [0, 0, 0]);
        let fixture = one.get().await.unwrap();
        drop((fixture, one));
        other.get().await.unwrap();
        assert_eq!(numbers(&counts), [1, 0, 0]);
        drop(other);
        until(&counts, [1, 1, 0]).await;
    }

    #[tokio::test]
    async fn a_start_that_fails_is_not_tried_again() {
        let starts = Arc::new(AtomicUsize::new(0));
        let counted = Arc::clone(&starts);
        let shared: Arc<Shared<Counted>> = Shared::new(move || {
            counted.fetch_add(1, Ordering::SeqCst);
            async { bail!("no port") }
        });
        let (one, other) = (Shared::user(&shared), Shared::user(&shared));
        for user in [&one, &other] {
            let why = format!("{:#}", user.get().await.err().unwrap());
            assert_eq!(why, "its fixture does not start: no port");
        }
        assert_eq!(starts.load(Ordering::SeqCst), 1);
    }

    #[tokio::test]
    async fn a_pool_starts_no_more_than_it_may_and_keeps_no_more_than_it_needs() {
        let counts = Arc::new(Counts::default());
        let pool = Pool::new(2, starts(&counts));
        (0..4).for_each(|_| pool.expect());
        let (one, other) = (pool.take().await.unwrap(), pool.take().await.unwrap());
        assert!(tokio::time::timeout(std::time::Duration::from_millis(20), pool.take()).await.is_err());
        assert_eq!(numbers(&counts), [2, 0, 0]);
        one.give_back();
        let third = pool.take().await.unwrap();
        assert_eq!(numbers(&counts), [2, 0, 1]);
        // One trial is still expected, and one fixture is free for it.
        other.give_back();
        third.give_back();
        until(&counts, [2, 1, 1]).await;
        let last = pool.take().await.unwrap();
        last.give_back();
        until(&counts, [2, 2, 2]).await;
    }

    #[tokio::test]
    async fn what_failed_or_cannot_be_cleaned_is_thrown_away() {
        let counts = Arc::new(Counts::default());
        let pool = Pool::new(1, starts(&counts));
        (0..3).for_each(|_| pool.expect());
        assert_eq!(pool.take().await.unwrap().throw_away(), [PathBuf::from("logs")]);
        pool.take().await.unwrap().give_back();
        assert_eq!(numbers(&counts)[0], 2);
        counts.dirty.store(true, Ordering::SeqCst);
        pool.take().await.unwrap().give_back();
        until(&counts, [3, 3, 1]).await;
    }
}
