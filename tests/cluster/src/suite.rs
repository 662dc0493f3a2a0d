//! The trials of a test program that runs them itself (`harness = false`), because they share fixtures that are
//! expensive to start.
//!
//! A trial that fails prints the command that runs it alone, and where the logs of its fixture are. How long each trial
//! took, without waiting for its fixture, is written to `target/trial-times/<suite>.tsv`: seconds, a tab, the name.

use std::fmt::Write as _;
use std::path::PathBuf;
use std::process::ExitCode;
use std::sync::{Arc, Mutex, PoisonError};
use std::time::Duration;

use anyhow::{Result, anyhow};
use futures::future::BoxFuture;
use libtest_mimic::{Arguments, Failed, Trial};
use tokio::runtime::Runtime;
use tokio::sync::Semaphore;
use tokio::time::Instant;

use crate::fixture::{Fixture, Pool, Shared};
use crate::process::target_folder;

/// The time limit for all fixtures to stop: each takes a few seconds.
const STOP_DEADLINE: Duration = Duration::from_secs(120);

/// Whether this is `make soak`: trials that find rare faults by repetition then run long enough to find most of them.
/// Otherwise they have a short form, which detects the same faults more rarely.
pub fn soak() -> bool {
    std::env::var_os("MULLION_SOAK").is_some_and(|value| !value.is_empty())
}

/// A trial with a fixture: its name, and its function.
pub type FixtureTrial<T> = (&'static str, for<'a> fn(&'a T) -> BoxFuture<'a, Result<()>>);

/// Trials, named after their functions, of one kind of fixture: `trials![nodes::nodes_of_every_kind, …]`.
#[macro_export]
macro_rules! trials {
    ($($module:ident::$name:ident),* $(,)?) => {
        [$(
            $crate::named(concat!(stringify!($module), "::", stringify!($name)), |fixture| Box::pin($module::$name(fixture)))
        ),*]
    };
}

/// The result of [`trials!`] for a function.
pub fn named<T>(name: &'static str, run: for<'a> fn(&'a T) -> BoxFuture<'a, Result<()>>) -> FixtureTrial<T> {
    (name, run)
}

/// The trials of a test program.
pub struct Suite {
    runtime: Runtime,
    trials: Vec<Trial>,
    context: Arc<Context>,
    /// Functions that stop what trials that were not selected have left running.
    stops: Vec<Box<dyn FnOnce()>>,
}

struct Context {
    name: &'static str,
    /// Running trials hold one permit each; trials that wait for a fixture hold none.
    permits: Arc<Semaphore>,
    times: Mutex<Vec<(Duration, String)>>,
}

impl Suite {
    /// An empty suite of the test program `name`, of which at most `at_once` trials run at the same time.
    ///
    /// # Panics
    /// If no runtime can be created.
    #[allow(clippy::expect_used, reason = "a test program without threads can do nothing else")]
    pub fn new(name: &'static str, at_once: usize) -> Self {
        Self {
            runtime: Runtime::new().expect("a runtime"),
            trials: Vec::new(),
            context: Arc::new(Context { name, permits: Arc::new(Semaphore::new(at_once)), times: Mutex::default() }),
            stops: Vec::new(),
        }
    }

    /// Adds a trial without a fixture.
    pub fn trial(&mut self, name: impl Into<String>, run: impl Future<Output = Result<()>> + Send + 'static) {
        let name = name.into();
        let context = Arc::clone(&self.context);
        self.add(name.clone(), async move {
            let _permit = context.permits.acquire().await?;
            context.timed(&name, run).await.map_err(|error| context.failure(&name, &error, &[]))
        });
    }

    /// Adds a trial that never waits: it gets a thread of its own.
    pub fn blocking(&mut self, name: impl Into<String>, run: impl FnOnce() -> Result<()> + Send + 'static) {
        self.trial(name, async move { tokio::task::spawn_blocking(run).await? });
    }

    /// Adds trials that use the same fixture at the same time. The fixture stops when the last of them has ended.
    pub fn shared<T: Fixture>(&mut self, fixture: &Arc<Shared<T>>, trials: impl IntoIterator<Item = FixtureTrial<T>>) {
        for (name, run) in trials {
            self.shared_trial(fixture, name.to_owned(), move |fixture| Box::pin(async move { run(&fixture).await }));
        }
    }

    /// Adds a trial that is not run, and is counted as ignored.
    pub fn skipped(&mut self, name: impl Into<String>) {
        self.trials.push(Trial::test(name, || Ok(())).with_ignored_flag(true));
    }

    /// Adds one of them.
    pub fn shared_trial<T: Fixture>(
        &mut self,
        fixture: &Arc<Shared<T>>,
        name: String,
        run: impl FnOnce(Arc<T>) -> BoxFuture<'static, Result<()>> + Send + 'static,
    ) {
        let (context, user, left) = (Arc::clone(&self.context), Shared::user(fixture), Arc::clone(fixture));
        self.stops.push(Box::new(move || left.stop()));
        let sharers = Arc::clone(fixture);
        self.add(name.clone(), async move {
            let _sharer = sharers.sharers.acquire().await?;
            let fixture = user.get().await.map_err(|error| context.failure(&name, &error, &[]))?;
            let permit = context.permits.acquire().await?;
            let outcome = context.timed(&name, run(Arc::clone(&fixture))).await;
            drop(permit);
            outcome.map_err(|error| context.failure(&name, &error, &fixture.keep_logs()))
        });
    }

    /// Adds trials that each have a fixture of the pool to themselves.
    pub fn pooled<T: Fixture>(&mut self, pool: &Arc<Pool<T>>, trials: impl IntoIterator<Item = FixtureTrial<T>>) {
        for (name, run) in trials {
            self.pooled_trial(pool, name.to_owned(), move |fixture| Box::pin(async move { run(&fixture).await }));
        }
    }

    /// Adds one of them.
    pub fn pooled_trial<T: Fixture>(
        &mut self,
        pool: &Arc<Pool<T>>,
        name: String,
        run: impl FnOnce(Arc<T>) -> BoxFuture<'static, Result<()>> + Send + 'static,
    ) {
        let (context, left, pool) = (Arc::clone(&self.context), Arc::clone(pool), Arc::clone(pool));
        self.stops.push(Box::new(move || left.stop()));
        pool.expect();
        self.add(name.clone(), async move {
            let turn = pool.take().await.map_err(|error| context.failure(&name, &error, &[]))?;
            let permit = context.permits.acquire().await?;
            let outcome = context.timed(&name, run(Arc::clone(turn.fixture()))).await;
            drop(permit);
            match outcome {
                Ok(()) => {
                    turn.give_back();
                    Ok(())
                }
                Err(error) => Err(context.failure(&name, &error, &turn.throw_away())),
            }
        });
    }

    /// The names of the trials that were added so far.
    pub fn names(&self) -> impl Iterator<Item = &str> {
        self.trials.iter().map(Trial::name)
    }

    /// Runs the trials that the arguments of the program select, and records how long each took.
    pub fn run(self, mut arguments: Arguments) -> ExitCode {
        // A thread for each, because most of them wait.
        arguments.test_threads.get_or_insert(self.trials.len().max(1));
        let conclusion = libtest_mimic::run(&arguments, self.trials);
        {
            let _runtime = self.runtime.enter();
            self.stops.into_iter().for_each(|stop| stop());
        }
        self.runtime.shutdown_timeout(STOP_DEADLINE);
        if !arguments.list
            && let Err(why) = self.context.write_times()
        {
            #[allow(clippy::print_stderr, reason = "the trials themselves are judged already")]
            {
                eprintln!("the times of the trials are not written: {why:#}");
            }
        }
        conclusion.exit_code()
    }

    fn add(&mut self, name: String, run: impl Future<Output = Result<()>> + Send + 'static) {
        let runtime = self.runtime.handle().clone();
        self.trials
            .push(Trial::test(name, move || runtime.block_on(run).map_err(|error| Failed::from(format!("{error:#}")))));
    }
}

impl Context {
    /// Runs in a task of its own, so that a panic fails this trial only.
    async fn timed(&self, name: &str, run: impl Future<Output = Result<()>> + Send + 'static) -> Result<()> {
        let began = Instant::now();
        let outcome = tokio::spawn(run).await;
        let row = (began.elapsed(), name.to_owned());
        self.times.lock().unwrap_or_else(PoisonError::into_inner).push(row);
        outcome.unwrap_or_else(|panicked| Err(anyhow!("{panicked}")))
    }

    /// What went wrong, and then how to reproduce it.
    fn failure(&self, name: &str, error: &anyhow::Error, logs: &[PathBuf]) -> anyhow::Error {
        let mut text = format!(
            "{error:#}\n\nrun it alone: cargo test --locked --workspace --test {} -- --exact {name}",
            self.name
        );
        for folder in logs {
            write!(text, "\nlogs: {}", folder.display()).ok();
        }
        anyhow!("{text}")
    }

    fn write_times(&self) -> Result<()> {
        let mut rows = std::mem::take(&mut *self.times.lock().unwrap_or_else(PoisonError::into_inner));
        rows.sort_by(|a, b| b.cmp(a));
        let folder = target_folder().join("trial-times");
        std::fs::create_dir_all(&folder)?;
        let lines = rows.iter().map(|(took, name)| format!("{:.1}\t{name}\n", took.as_secs_f64()));
        Ok(std::fs::write(folder.join(format!("{}.tsv", self.name)), lines.collect::<String>())?)
    }
}
