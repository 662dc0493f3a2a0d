//! Calls that are tried again, and lists that come in pages.

use std::fmt;
use std::time::Duration;

use anyhow::Context as _;
use k8s_openapi::apimachinery::pkg::apis::meta::v1::ListMeta;
use kube::Client;
use kube::api::ListParams;
use kube::core::Request;
use serde::Deserialize;
use serde::de::DeserializeOwned;
use tokio::time::{sleep, timeout};
use tokio_util::sync::CancellationToken;

use crate::cluster::backoff::Backoff;
use crate::cluster::watch::CALL;

/// Objects per page: as kubectl asks.
const PAGE: u32 = 500;
const BACKOFF: Backoff = Backoff::new(Duration::from_millis(250), Duration::from_secs(5));

/// Why a call failed.
#[derive(Debug)]
pub(crate) enum Failure {
    /// The API server rejects it: trying again would not help.
    Refused(Box<kube::core::Status>),
    /// No answer that could be used, however often it was tried.
    Broken(String),
    /// There was no more time.
    Stopped,
}

impl fmt::Display for Failure {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Refused(status) => f.write_str(&status.message),
            Self::Broken(why) => f.write_str(why),
            Self::Stopped => f.write_str("there was no more time"),
        }
    }
}

/// Attempts while a person waits to hear that the address is wrong.
const FIRST_CONTACT: u32 = 3;
/// Attempts where others wait for their turn, with 13 s of waits.
pub(crate) const FEW: u32 = 7;
/// Attempts where nothing goes on without an answer.
pub(crate) const UNLIMITED: u32 = u32::MAX;

/// Makes calls, until it is stopped.
#[derive(Clone)]
pub(crate) struct Calls {
    pub(crate) client: Client,
    stop: CancellationToken,
}

impl Calls {
    pub(crate) fn new(client: Client, stop: CancellationToken) -> Self {
        Self { client, stop }
    }

    pub(crate) fn stopped(&self) -> bool {
        self.stop.is_cancelled()
    }

    /// Waits; whether there is time left then.
    pub(crate) async fn pause(&self, wait: Duration) -> bool {
        tokio::select! {
            () = sleep(wait) => true,
            () = self.stop.cancelled() => false,
        }
    }

    /// Fails where there is no API server at all.
    pub(crate) async fn check_server(&self) -> anyhow::Result<()> {
        let version = self.again(FIRST_CONTACT, || self.client.apiserver_version()).await;
        version.map(drop).map_err(|why| anyhow::anyhow!("{why}")).context("the cluster cannot be reached")
    }

    /// Calls, and calls again where that may help: no answer, 429, 5xx. (kube's client by itself waits as `Retry-After`
    /// says.) A call under way when the time is over is not cut off: its write may be on its way.
    pub(crate) async fn again<T, F>(&self, attempts: u32, call: impl Fn() -> F) -> Result<T, Failure>
    where
        F: Future<Output = kube::Result<T>>,
    {
        let mut failures = 0;
        while !self.stopped() {
            let why = match timeout(CALL, call()).await {
                Ok(Ok(answer)) => return Ok(answer),
                Ok(Err(kube::Error::Api(status))) if !is_passing(status.code) => return Err(Failure::Refused(status)),
                Ok(Err(kube::Error::Api(status))) => status.message.clone(),
                Ok(Err(error @ kube::Error::SerdeError(_))) => return Err(Failure::Broken(error.to_string())),
                Ok(Err(error)) => error.to_string(),
                Err(_) => format!("no answer within {} s", CALL.as_secs()),
            };
            failures += 1;
            if failures >= attempts {
                return Err(Failure::Broken(why));
            }
            self.pause(BACKOFF.delay(failures - 1)).await;
        }
        Err(Failure::Stopped)
    }

    /// Every object of a list, page by page. One that is too old to go on with (410) begins anew, so `each` may see an
    /// object twice.
    pub(crate) async fn list<T: DeserializeOwned>(
        &self,
        attempts: u32,
        path: &str,
        selected: &ListParams,
        mut each: impl FnMut(T),
    ) -> Result<(), Failure> {
        let mut from: Option<String> = None;
        loop {
            let mut params = selected.clone().limit(PAGE);
            params.continue_token.clone_from(&from);
            let request = Request::new(path).list(&params).map_err(|error| Failure::Broken(error.to_string()))?;
            let answer = self.again(attempts, || self.client.request::<Page<T>>(request.clone())).await;
            let page = match answer {
                Err(Failure::Refused(status)) if status.code == 410 && from.is_some() => {
                    from = None;
                    continue;
                }
                other => other?,
            };
            page.items.into_iter().flatten().for_each(&mut each);
            from = page.metadata.and_then(|metadata| metadata.continue_).filter(|token| !token.is_empty());
            if from.is_none() {
                return Ok(());
            }
        }
    }
}

fn is_passing(code: u16) -> bool {
    code == 429 || code >= 500
}

#[derive(Deserialize)]
#[serde(bound = "T: DeserializeOwned")]
struct Page<T> {
    metadata: Option<ListMeta>,
    items: Option<Vec<T>>,
}
