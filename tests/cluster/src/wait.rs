//! Waits by polling until a deadline: the way in which every wait here is done.

use std::fmt::Display;
use std::time::Duration;

use anyhow::{Error, Result, anyhow};
use tokio::time::{Instant, sleep, timeout_at};

const FIRST_PAUSE: Duration = Duration::from_millis(10);
/// Polls cost the API server more than half a second of waiting costs a test.
const LONGEST_PAUSE: Duration = Duration::from_millis(500);

/// The result of one poll.
#[derive(Debug)]
pub enum Seen<T> {
    /// The expected result.
    Done(T),
    /// Not yet; contains what was found instead.
    NotYet(String),
    /// It will never happen: stop waiting and report why.
    Hopeless(Error),
}

impl<T> From<Option<T>> for Seen<T> {
    fn from(seen: Option<T>) -> Self {
        seen.map_or_else(|| Self::NotYet("nothing".to_owned()), Self::Done)
    }
}

/// An error counts as "not yet", because an API server that is busy or starting returns errors.
impl<T, E: Display> From<Result<T, E>> for Seen<T> {
    fn from(seen: Result<T, E>) -> Self {
        seen.map_or_else(|error| Self::NotYet(format!("{error:#}")), Self::Done)
    }
}

/// Polls repeatedly until `look` returns [`Seen::Done`] (or `Some`, or `Ok`), for at most `deadline`.
///
/// A poll that hangs is canceled at the deadline.
///
/// # Errors
/// Contains `what`, the deadline and the result of the last finished poll.
///
/// ```
/// # tokio::runtime::Builder::new_current_thread().enable_time().build()?.block_on(async {
/// use std::time::Duration;
/// let mut looks = 0;
/// let third = mullion_cluster::wait_for("the third look", Duration::from_secs(5), || {
///     looks += 1;
///     std::future::ready((looks == 3).then_some(looks))
/// });
/// assert_eq!(third.await?, 3);
/// # anyhow::Ok(()) })?;
/// # anyhow::Ok(())
/// ```
pub async fn wait_for<T, S, F>(what: &str, deadline: Duration, mut look: impl FnMut() -> F) -> Result<T>
where
    S: Into<Seen<T>>,
    F: Future<Output = S>, // `AsyncFnMut` would allow more, but such a future is not `Send` if it borrows anything
{
    let end = Instant::now() + deadline;
    let mut pause = FIRST_PAUSE;
    let mut last = "nothing: the first look did not end".to_owned();
    loop {
        match timeout_at(end, look()).await.map(Into::into) {
            Ok(Seen::Done(found)) => return Ok(found),
            Ok(Seen::Hopeless(why)) => return Err(why.context(format!("gave up waiting for {what}"))),
            Ok(Seen::NotYet(seen)) => last = seen,
            Err(_elapsed) => {}
        }
        if Instant::now() >= end {
            return Err(anyhow!("waited {deadline:?} for {what}; last seen: {last}"));
        }
        sleep(pause).await;
        pause = (pause * 3 / 2).min(LONGEST_PAUSE);
    }
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used, reason = "tests")]
    use super::*;

    const MINUTE: Duration = Duration::from_secs(60);

    #[tokio::test(start_paused = true)]
    async fn every_kind_of_answer() {
        assert_eq!(wait_for("it", MINUTE, async || Some(1)).await.unwrap(), 1);
        assert_eq!(wait_for("it", MINUTE, async || Ok::<_, Error>(2)).await.unwrap(), 2);
        assert_eq!(wait_for("it", MINUTE, async || Seen::Done(3)).await.unwrap(), 3);
        let hopeless = wait_for("it", MINUTE, async || Seen::<()>::Hopeless(anyhow!("dead"))).await.unwrap_err();
        assert_eq!(format!("{hopeless:#}"), "gave up waiting for it: dead");
    }

    #[tokio::test(start_paused = true)]
    async fn the_error_says_what_was_seen_last() {
        let mut looks = 0;
        let error = wait_for("three pods", MINUTE, || {
            looks += 1;
            std::future::ready(Err::<(), _>(anyhow!("look {looks}").context("inner")))
        });
        let error = error.await.unwrap_err().to_string();
        assert_eq!(error, format!("waited 60s for three pods; last seen: inner: look {looks}"));
        assert!(looks > 100, "{looks} looks in a minute");
    }

    #[tokio::test(start_paused = true)]
    async fn a_look_that_hangs_is_cut_off() {
        let mut looks = 0;
        let error = wait_for("it", MINUTE, || {
            looks += 1;
            let hang = looks > 1;
            async move {
                if hang {
                    std::future::pending::<()>().await;
                }
                Seen::<()>::NotYet("two of three".to_owned())
            }
        });
        assert_eq!(error.await.unwrap_err().to_string(), "waited 60s for it; last seen: two of three");
    }

    #[test]
    fn the_future_can_move_between_threads() {
        fn sendable(_: &impl Send) {}
        let name = String::from("x");
        sendable(&wait_for("it", MINUTE, async || name.is_empty().then_some(())));
    }
}
