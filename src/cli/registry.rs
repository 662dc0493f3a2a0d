//! Asking registries from the command line, with the logins of the docker configuration.

use std::collections::VecDeque;
use std::env;
use std::io::ErrorKind;
use std::path::PathBuf;
use std::sync::Arc;
use std::time::Duration;

use anyhow::Context as _;
use mullion_engine::model::image::platform::{KnownImages, Platforms};
use mullion_engine::model::image::reference::ImageRef;
use mullion_policy::registry_policy::RegistryPolicy;
use tokio::task::JoinSet;
use tokio::time::Instant;

use crate::cli::input::read_file;
use crate::cli::io_handles::Io;
use crate::cli::progress::Progress;
use crate::cli::usage_error::UsageError;
use crate::registry::credentials::Credentials;
use crate::registry::lookup::Registries;
use crate::registry::outcome::LookupError;
use crate::registry::settings::RegistrySettings;

/// Images asked for at one time.
const AT_ONCE: usize = 8;

/// What a look-up may take beyond its own limit, which ends it with a better message.
const GRACE: Duration = Duration::from_secs(1);

/// How one look-up ended.
type Answer = (String, Result<Arc<Platforms>, LookupError>);

/// What registries say of these references, and how many of them they say nothing of, each said on stderr.
pub(crate) fn ask(
    references: Vec<String>,
    policy: &RegistryPolicy,
    io: &mut Io<'_>,
) -> anyhow::Result<(KnownImages, usize)> {
    if references.is_empty() {
        return Ok((KnownImages::new(), 0));
    }
    let credentials = credentials()?;
    let registries = Registries::new(RegistrySettings::from(policy)).context("registries cannot be asked")?;
    let patience = policy.timeout + GRACE;
    let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build();
    let runtime = runtime.context("cannot start the async runtime")?;
    runtime.block_on(ask_all(&registries, &credentials, references, patience, io))
}

async fn ask_all(
    registries: &Registries,
    credentials: &Credentials,
    references: Vec<String>,
    patience: Duration,
    io: &mut Io<'_>,
) -> anyhow::Result<(KnownImages, usize)> {
    let (mut known, mut failed) = (KnownImages::new(), Vec::new());
    let mut progress = Progress::new("images asked for");
    let (mut done, all) = (0, references.len());
    let mut waiting = VecDeque::from(references);
    let mut asked: JoinSet<Answer> = JoinSet::new();
    loop {
        while asked.len() < AT_ONCE
            && let Some(reference) = waiting.pop_front()
        {
            let (registries, credentials) = (registries.clone(), credentials.clone());
            asked.spawn(async move {
                let answer = match ImageRef::parse(&reference) {
                    Ok(image) => registries.resolve(&image, &credentials, Instant::now() + patience).await,
                    Err(_) => Err(LookupError::Absent),
                };
                (reference, answer)
            });
        }
        let Some(answer) = asked.join_next().await else { break };
        done += 1;
        progress.at(io, done, all)?;
        match answer.context("a look-up ended early")? {
            (reference, Ok(platforms)) => drop(known.insert(reference, platforms)),
            (reference, Err(error)) => failed.push((reference, error)),
        }
    }
    progress.end(io)?;
    failed.sort_by(|(one, _), (other, _)| one.cmp(other));
    for (reference, error) in &failed {
        io.say(format_args!("{reference}: {error}"))?;
    }
    Ok((known, failed.len()))
}

/// The logins of `docker login`; nobody's if there is no such file. Those that it leaves to credential helpers are not
/// used: a helper is a program.
fn credentials() -> anyhow::Result<Credentials> {
    let directory = env::var_os("DOCKER_CONFIG").map(PathBuf::from);
    let directory = directory.or_else(|| Some(env::home_dir()?.join(".docker")));
    let Some(path) = directory.map(|directory| directory.join("config.json")) else {
        return Ok(Credentials::anonymous());
    };
    let name = path.display();
    let bytes = match read_file(&path) {
        Ok(bytes) => bytes,
        Err(error) if error.kind() == ErrorKind::NotFound => return Ok(Credentials::anonymous()),
        Err(error) => return Err(UsageError(format!("{name}: the logins cannot be read: {error}")).into()),
    };
    let credentials = Credentials::from_dockerconfigjson(&bytes);
    credentials.map_err(|error| UsageError(format!("{name}: {error}; name another with DOCKER_CONFIG")).into())
}
