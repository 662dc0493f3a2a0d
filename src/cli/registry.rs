//! Look-ups in registries from the command line, with the logins of the docker configuration.

use std::collections::BTreeMap;
use std::env;
use std::io::ErrorKind;
use std::path::PathBuf;
use std::pin::pin;
use std::time::Duration;

use anyhow::{Context as _, anyhow, bail};
use futures::{StreamExt as _, stream};
use mullion_engine::model::image::{ImageRef, KnownImages};
use mullion_engine::model::windows::Build;
use mullion_policy::RegistryPolicy;
use tokio::time::Instant;

use crate::cli::async_runtime::block_on;
use crate::cli::input::read_file;
use crate::cli::io_handles::Io;
use crate::cli::progress::Progress;
use crate::registry::{AddressRule, Credentials, ImageAnswer, LookupError, RegistryClient, RegistrySettings};

/// The number of concurrent look-ups.
const AT_ONCE: usize = 8;

/// The time that a look-up may take beyond its own limit, which ends it with a better message.
const GRACE: Duration = Duration::from_secs(1);

/// What registries reported.
#[derive(Debug, Default)]
pub(crate) struct LookedUp {
    pub(crate) images: KnownImages,
    /// The compressed bytes that a node pulls, if they were requested.
    pub(crate) sizes: BTreeMap<String, u64>,
    /// The look-ups without a result, by image. They are reported.
    pub(crate) failed: Vec<(String, LookupError)>,
}

/// Looks up the platforms of images, and the bytes that nodes of the build `pull_host` pull. Each failed look-up is reported
/// on stderr.
pub(crate) fn look_up(
    references: Vec<String>,
    pull_host: Option<Build>,
    policy: &RegistryPolicy,
    io: &mut Io<'_>,
) -> anyhow::Result<LookedUp> {
    if references.is_empty() {
        return Ok(LookedUp::default());
    }
    let credentials = credentials()?;
    // All addresses are permitted, because the user who runs the command could connect to any address anyway.
    let settings = RegistrySettings { addresses: AddressRule::Any, pull_host, ..RegistrySettings::from(policy) };
    let registries = RegistryClient::new(settings).context("images cannot be looked up")?;
    let limit = policy.timeout + GRACE;
    block_on(look_up_all(&registries, &credentials, references, limit, io))
}

async fn look_up_all(
    registries: &RegistryClient,
    credentials: &Credentials,
    references: Vec<String>,
    limit: Duration,
    io: &mut Io<'_>,
) -> anyhow::Result<LookedUp> {
    let mut found = LookedUp::default();
    let mut progress = Progress::new("images looked up");
    let all = references.len();
    let look_ups = stream::iter(references).map(|reference: String| async move {
        let result = match ImageRef::parse(&reference) {
            Ok(image) => registries.resolve_answer(&image, credentials, Instant::now() + limit).await,
            Err(_) => Err(LookupError::Absent),
        };
        (reference, result)
    });
    let mut results = pin!(look_ups.buffer_unordered(AT_ONCE).enumerate());
    while let Some((done, (reference, result))) = results.next().await {
        progress.at(io, done + 1, all)?;
        match result {
            Ok(ImageAnswer { platforms, pull_bytes, digest: _ }) => {
                if let Some(bytes) = pull_bytes {
                    found.sizes.insert(reference.clone(), bytes);
                }
                found.images.insert(reference, platforms);
            }
            Err(error) => found.failed.push((reference, error)),
        }
    }
    progress.end(io)?;
    found.failed.sort_by(|(one, _), (other, _)| one.cmp(other));
    for (reference, error) in &found.failed {
        io.eprintln(format_args!("{reference}: {error}"))?;
    }
    Ok(found)
}

/// The logins of `docker login`; empty if there is no such file. Logins in credential helpers are not used, because a
/// helper is a program.
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
        Err(error) => bail!("{name}: the logins cannot be read: {error}"),
    };
    let credentials = Credentials::from_dockerconfigjson(&bytes);
    credentials.map_err(|error| anyhow!("{name}: {error}; name another with DOCKER_CONFIG"))
}
