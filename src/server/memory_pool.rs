//! The memory that all requests together may use. Each request reserves memory before it uses it.
//!
//! | share | ordinary requests | large requests |
//! |---|---|---|
//! | bodies: bytes, as they arrive | 4 MiB | 20 MiB |
//! | reviews: trees, findings and responses, all at once | 12 MiB | 32 MiB |
//!
//! There are two classes, so that large requests never make an ordinary one wait. There are two shares, so that
//! requests do not deadlock: a review with a reservation needs no other, a whole body waits only for reviews, and the
//! one large body that is being read waits only for whole ones.
//!
//! The webhook stays below 128 MiB: 30 MiB without requests in a cluster of 20,000 nodes, 24 MiB for the buffers of connections,
//! and these 68 MiB.

use std::sync::Arc;

use tokio::sync::{OwnedSemaphorePermit, Semaphore};
use tokio::time::{Instant, timeout_at};

/// The longest body of an ordinary request, in bytes. Nearly every review is shorter.
pub(crate) const ORDINARY_BODY: usize = 64 << 10;
/// The number of bytes of one permit.
const UNIT: usize = 1 << 10;

/// A class of requests.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum RequestClass {
    /// With a body up to [`ORDINARY_BODY`].
    Ordinary,
    /// With a longer body, or one of unknown length.
    Large,
}

impl RequestClass {
    /// The class of a body with that length, if it is known.
    pub(crate) fn of_length(length: Option<u64>) -> Self {
        match length {
            Some(length) if length <= ORDINARY_BODY as u64 => Self::Ordinary,
            _ => Self::Large,
        }
    }
}

/// The memory of all requests.
#[derive(Debug)]
pub struct MemoryPool {
    ordinary: Shares,
    large: Shares,
    /// Held while a large body is read, because two half-read bodies could wait for each other.
    large_body_turn: Arc<Semaphore>,
}

#[derive(Debug)]
struct Shares {
    bodies: Share,
    reviews: Share,
}

#[derive(Debug)]
struct Share {
    units: Arc<Semaphore>,
    all: usize,
}

/// The size of each share, in bytes.
#[derive(Debug, Clone)]
pub struct MemoryLimits {
    /// Bodies of ordinary requests.
    pub ordinary_bodies: usize,
    /// Reviews of ordinary requests.
    pub ordinary_reviews: usize,
    /// Bodies of large requests.
    pub large_bodies: usize,
    /// Reviews of large requests.
    pub large_reviews: usize,
}

impl Default for MemoryLimits {
    fn default() -> Self {
        Self {
            // 700 bodies of 3 KB, which are reserved twice; at most 768 connections are open.
            ordinary_bodies: 4 << 20,
            // A review of 4 KB reserves about 130 KB: a hundred can wait for namespaces and registries at one time.
            ordinary_reviews: 12 << 20,
            // The longest body of 10 MiB is reserved twice.
            large_bodies: 20 << 20,
            // An object of 1.5 MiB, the largest that etcd stores, has a tree of 13 MiB if it has 100 bytes of text for
            // each map, and its review reserves that twice.
            large_reviews: 32 << 20,
        }
    }
}

impl Default for MemoryPool {
    fn default() -> Self {
        Self::new(&MemoryLimits::default())
    }
}

impl Share {
    fn of(bytes: usize) -> Self {
        let all = bytes / UNIT;
        Self { units: Arc::new(Semaphore::new(all)), all }
    }

    fn reservation(&self) -> Reservation {
        Reservation { units: Arc::clone(&self.units), all: self.all, held: None }
    }
}

impl MemoryPool {
    /// A pool of that size.
    pub fn new(limits: &MemoryLimits) -> Self {
        let shares = |bodies, reviews| Shares { bodies: Share::of(bodies), reviews: Share::of(reviews) };
        Self {
            ordinary: shares(limits.ordinary_bodies, limits.ordinary_reviews),
            large: shares(limits.large_bodies, limits.large_reviews),
            large_body_turn: Arc::new(Semaphore::new(1)),
        }
    }

    /// The turn to read a large body, after the earlier ones have been read.
    pub(crate) async fn large_body_turn(&self, latest: Instant) -> Result<OwnedSemaphorePermit, Unreserved> {
        let turn = timeout_at(latest, Arc::clone(&self.large_body_turn).acquire_owned()).await;
        turn.ok().and_then(Result::ok).ok_or(Unreserved::Late)
    }

    /// An empty reservation for the body of a request.
    pub(crate) fn body(&self, class: RequestClass) -> Reservation {
        self.shares(class).bodies.reservation()
    }

    /// An empty reservation for the review of a request.
    pub(crate) fn review(&self, class: RequestClass) -> Reservation {
        self.shares(class).reviews.reservation()
    }

    fn shares(&self, class: RequestClass) -> &Shares {
        match class {
            RequestClass::Ordinary => &self.ordinary,
            RequestClass::Large => &self.large,
        }
    }
}

/// Why memory was not reserved.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Unreserved {
    /// It is more than the whole share, so waiting is useless.
    MoreThanAll,
    /// Other requests held it for too long.
    Late,
}

/// A part of a share of the pool, until it is dropped.
#[derive(Debug)]
pub struct Reservation {
    units: Arc<Semaphore>,
    all: usize,
    held: Option<OwnedSemaphorePermit>,
}

impl Reservation {
    /// Grows to `bytes`, and waits until `latest` for memory of other requests. Requests get it in the order of their
    /// calls.
    pub(crate) async fn grow_to(&mut self, bytes: usize, latest: Instant) -> Result<(), Unreserved> {
        let wanted = bytes.div_ceil(UNIT);
        let Some(missing) = wanted.checked_sub(self.held_units()).filter(|missing| *missing > 0) else { return Ok(()) };
        if wanted > self.all {
            return Err(Unreserved::MoreThanAll);
        }
        let missing = u32::try_from(missing).map_err(|_| Unreserved::MoreThanAll)?;
        let more = match Arc::clone(&self.units).try_acquire_many_owned(missing) {
            Ok(more) => more,
            Err(_) => match timeout_at(latest, Arc::clone(&self.units).acquire_many_owned(missing)).await {
                Ok(Ok(more)) => more,
                _ => return Err(Unreserved::Late),
            },
        };
        match &mut self.held {
            Some(held) => held.merge(more),
            none => *none = Some(more),
        }
        Ok(())
    }

    /// All bytes of the share, of which it is a part.
    pub(crate) fn all_bytes(&self) -> usize {
        self.all * UNIT
    }

    /// Returns what exceeds `bytes` to the pool.
    pub(crate) fn shrink_to(&mut self, bytes: usize) {
        let spare = self.held_units().saturating_sub(bytes.div_ceil(UNIT));
        if let Some(held) = &mut self.held {
            drop(held.split(spare));
        }
    }

    fn held_units(&self) -> usize {
        self.held.as_ref().map_or(0, OwnedSemaphorePermit::num_permits)
    }
}

#[cfg(test)]
mod tests {

    #![allow(clippy::unwrap_used, reason = "tests")]

    use std::time::Duration;

    use super::*;

    const MIB: usize = 1 << 20;

    fn soon() -> Instant {
        Instant::now() + Duration::from_secs(1)
    }

    #[tokio::test(start_paused = true)]
    async fn a_share_is_given_out_once() {
        let pool = MemoryPool::default();
        let [mut first, mut second] = [(); 2].map(|()| pool.review(RequestClass::Large));
        assert_eq!(first.grow_to(20 * MIB, soon()).await, Ok(()));
        assert_eq!(first.grow_to(10 * MIB, soon()).await, Ok(()), "it has more");
        assert_eq!(second.grow_to(12 * MIB, soon()).await, Ok(()));
        assert_eq!(second.grow_to(12 * MIB + 1, soon()).await, Err(Unreserved::Late));
        first.shrink_to(19 * MIB);
        assert_eq!(second.grow_to(13 * MIB, soon()).await, Ok(()));
        drop(first);
        assert_eq!(second.grow_to(32 * MIB, soon()).await, Ok(()));
        assert_eq!(second.grow_to(32 * MIB + 1, soon()).await, Err(Unreserved::MoreThanAll));
        assert_eq!(second.grow_to(usize::MAX, soon()).await, Err(Unreserved::MoreThanAll));
        second.shrink_to(usize::MAX);
        second.shrink_to(0);
        assert_eq!(pool.large.reviews.units.available_permits(), pool.large.reviews.all);
    }

    #[tokio::test(start_paused = true)]
    async fn large_requests_leave_room_for_ordinary_ones_and_bodies_for_reviews() {
        let pool = MemoryPool::default();
        let mut body = pool.body(RequestClass::Large);
        body.grow_to(20 * MIB, soon()).await.unwrap();
        let mut review = pool.review(RequestClass::Large);
        review.grow_to(32 * MIB, soon()).await.unwrap();
        let mut waiting = pool.review(RequestClass::Large);
        let waits = waiting.grow_to(MIB, soon());
        let ordinary = async {
            let mut ordinary = pool.review(RequestClass::Ordinary);
            ordinary.grow_to(12 * MIB, Instant::now()).await.unwrap();
            pool.body(RequestClass::Ordinary).grow_to(4 * MIB, Instant::now()).await.unwrap();
            drop(review);
        };
        assert_eq!(futures::future::join(waits, ordinary).await.0, Ok(()), "it gets what the review gave back");
    }

    #[test]
    fn unknown_lengths_are_large() {
        for (length, expected) in [
            (Some(0), RequestClass::Ordinary),
            (Some(64 << 10), RequestClass::Ordinary),
            (Some((64 << 10) + 1), RequestClass::Large),
            (Some(u64::MAX), RequestClass::Large),
            (None, RequestClass::Large),
        ] {
            assert_eq!(RequestClass::of_length(length), expected, "{length:?}");
        }
    }
}
