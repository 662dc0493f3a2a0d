//! Calls with retries, and paged lists.

use std::time::Duration;

use anyhow::Context as _;
use kube::Client;
use kube::api::ListParams;
use serde::de::DeserializeOwned;
use tokio::time::{sleep, timeout};
use tokio_util::sync::CancellationToken;

use crate::cluster::reading::{Item, Kind, KindApi};
use crate::cluster::{Backoff, CALL};

/// Objects per page, as in kubectl.
const PAGE: u32 = 500;
const BACKOFF: Backoff = Backoff::new(Duration::from_millis(250), Duration::from_secs(5));

/// Why a call failed.
#[derive(Debug, thiserror::Error)]
pub(crate) enum CallFailure {
    /// The API server rejects the call, and a retry would not help.
    #[error("{}", .0.message)]
    Rejected(Box<kube::core::Status>),
    /// No usable response after all attempts.
    #[error("{0}")]
    Broken(String),
    #[error("the time was over")]
    Stopped,
}

/// The number of attempts while a user waits for an error about a wrong address.
const FIRST_CONTACT: u32 = 3;
/// The number of attempts while other objects wait, with 13 s of delays.
pub(crate) const FEW: u32 = 7;
/// The number of attempts of a call on whose response everything else depends.
pub(crate) const UNLIMITED: u32 = u32::MAX;

/// Sends calls until it is stopped.
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

    /// Waits, and returns whether there is time left.
    pub(crate) async fn pause(&self, wait: Duration) -> bool {
        tokio::select! {
            () = sleep(wait) => true,
            () = self.stop.cancelled() => false,
        }
    }

    /// Fails if the API server cannot be reached.
    pub(crate) async fn check_server(&self) -> anyhow::Result<()> {
        let version = self.retry(FIRST_CONTACT, || self.client.apiserver_version()).await;
        version.map(drop).context("the cluster cannot be reached")
    }

    /// Calls, with retries after temporary failures: no response, 429, 5xx. (kube's client waits as `Retry-After`
    /// requires.) A pending call is not aborted when the time is over, because its write may have been sent.
    pub(crate) async fn retry<T, F>(&self, attempts: u32, call: impl Fn() -> F) -> Result<T, CallFailure>
    where
        F: Future<Output = kube::Result<T>>,
    {
        let mut failures = 0;
        while !self.stopped() {
            let why = match timeout(CALL, call()).await {
                Ok(Ok(response)) => return Ok(response),
                Ok(Err(kube::Error::Api(status))) if !is_passing(status.code) => {
                    return Err(CallFailure::Rejected(status));
                }
                Ok(Err(kube::Error::Api(status))) => status.message.clone(),
                Ok(Err(error @ kube::Error::SerdeError(_))) => return Err(CallFailure::Broken(error.to_string())),
                Ok(Err(error)) => error.to_string(),
                Err(_) => format!("no response within {} s", CALL.as_secs()),
            };
            failures += 1;
            if failures >= attempts {
                return Err(CallFailure::Broken(why));
            }
            self.pause(BACKOFF.delay(failures - 1)).await;
        }
        Err(CallFailure::Stopped)
    }

    /// Passes every object of a list to `each`, page by page. A page that fails is requested again, and a list that expires
    /// (410) is restarted, so `each` may receive an object twice.
    pub(crate) async fn list<T: DeserializeOwned>(
        &self,
        attempts: u32,
        kind: &'static Kind,
        selected: &ListParams,
        mut each: impl FnMut(Item<T>),
    ) -> Result<(), CallFailure> {
        let api = KindApi::all(self.client.clone(), kind);
        let mut params = selected.clone().limit(PAGE);
        loop {
            // The objects of a page are kept until the page is complete, because a retry needs `each` again.
            let page = self.retry(attempts, || page(&api, &params)).await;
            let (items, token) = match page {
                Err(CallFailure::Rejected(status)) if status.code == 410 && params.continue_token.is_some() => {
                    params.continue_token = None;
                    continue;
                }
                other => other?,
            };
            items.into_iter().for_each(&mut each);
            params.continue_token = token;
            if params.continue_token.is_none() {
                return Ok(());
            }
        }
    }
}

fn is_passing(code: u16) -> bool {
    code == 429 || code >= 500
}

/// The objects of a page, as what is kept of them, and the token of the next page.
async fn page<T: DeserializeOwned>(api: &KindApi, params: &ListParams) -> kube::Result<(Vec<Item<T>>, Option<String>)> {
    let mut items = Vec::new();
    let metadata = api.page(params, |item| items.push(item)).await?;
    Ok((items, metadata.next_page()))
}
