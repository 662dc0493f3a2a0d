//! The election: whether this process leads, from the Lease as read and this process's own clock. Pure: the times are
//! arguments.

use std::time::Duration;

use jiff::{SignedDuration, Timestamp};
use tokio::time::Instant;

use crate::controller::lease::record::{LeaseClaim, LeaseRecord, micros};
use crate::controller::lease::timing::LeaseTiming;

/// The maximum share that is added to the waits between two reads: client-go's `JitterFactor`.
const JITTER: f64 = 1.2;
/// The maximum number of writes without a response that are kept; an older write could only prove a shorter term.
const MAX_UNANSWERED: usize = 16;

/// The lease in the view of one process, and whether it leads.
#[derive(Debug)]
pub(crate) struct Election {
    identity: String,
    timing: LeaseTiming,
    known: KnownLease,
    /// Whether `known` is new enough to write against.
    fresh: bool,
    /// The earliest time of the next request.
    not_before: Option<Instant>,
    /// When the last write that is known to have succeeded began.
    held_from: Option<Instant>,
    /// Writes that may have succeeded or may still succeed: when each began, and the `renewTime` it contains.
    unanswered: Vec<(Instant, Timestamp)>,
    /// The number of times that this process has started to lead.
    term: u64,
}

/// The Lease as last read.
#[derive(Debug)]
enum KnownLease {
    Unread,
    /// There is no Lease, and none may be created before this time.
    Absent {
        free_at: Instant,
    },
    /// There is a Lease, and its claim has been unchanged since this time.
    Present {
        record: LeaseRecord,
        since: Instant,
    },
}

/// The next action of the process.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) enum NextStep {
    Wait(Duration),
    Read,
    /// Create the Lease, or update it with the `resourceVersion` last read.
    Write,
}

/// The result of a write.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) enum WriteResult {
    /// It succeeded, and the Lease contains this record.
    Done(LeaseRecord),
    /// Another process was faster (409), or the Lease was deleted (404).
    Conflict,
    /// It did not happen, and an immediate retry would not succeed.
    Rejected,
    /// No response, or one that does not decide it (5xx): the write may have happened, or may still happen.
    Unknown,
}

impl Election {
    pub(crate) fn new(identity: String, timing: LeaseTiming) -> Self {
        Self {
            identity,
            timing,
            known: KnownLease::Unread,
            fresh: false,
            not_before: None,
            held_from: None,
            unanswered: Vec::new(),
            term: 0,
        }
    }

    pub(crate) fn next_step(&self, now: Instant) -> NextStep {
        match self.not_before.and_then(|at| at.checked_duration_since(now)) {
            Some(wait) if !wait.is_zero() => NextStep::Wait(wait),
            _ if self.fresh => NextStep::Write,
            _ => NextStep::Read,
        }
    }

    /// The term of this process, and when it ends unless the lease is renewed; that may be in the past.
    pub(crate) fn hold(&self) -> Option<(u64, Instant)> {
        self.held_from.map(|began| (self.term, began + self.timing.renew_deadline))
    }

    pub(crate) fn leads(&self, now: Instant) -> bool {
        self.hold().is_some_and(|(_, until)| now < until)
    }

    /// The holder of the lease as last read.
    pub(crate) fn holder(&self) -> Option<&str> {
        match &self.known {
            KnownLease::Present { record, .. } => record.holder.as_deref(),
            KnownLease::Unread | KnownLease::Absent { .. } => None,
        }
    }

    /// Whether this process may be the holder in the Lease.
    pub(crate) fn may_hold(&self) -> bool {
        self.holder() == Some(&self.identity) || !self.unanswered.is_empty()
    }

    /// Stops leading, whatever the Lease contains.
    pub(crate) fn resign(&mut self) {
        self.held_from = None;
    }

    /// Processes the Lease as read. `jitter`, from 0 to 1, spreads the reads of waiting processes.
    pub(crate) fn end_read(&mut self, now: Instant, lease: Option<LeaseRecord>, jitter: f64) {
        match lease {
            None => self.take_in_absence(now),
            Some(record) => self.take_in_record(now, record),
        }
        let free_at = self.free_at();
        self.fresh = free_at.is_none_or(|at| at <= now);
        self.not_before = match free_at {
            // This process holds it: a renewal is due, unless a write with a lost response has succeeded.
            None => self.held_from.filter(|_| self.leads(now)).map(|began| began + self.timing.retry),
            Some(at) => Some(at.min(now + self.timing.retry.mul_f64(1.0 + JITTER * jitter.clamp(0.0, 1.0)))),
        };
    }

    fn take_in_absence(&mut self, now: Instant) {
        let free_at = match &self.known {
            KnownLease::Absent { .. } => return,
            KnownLease::Unread => now,
            // While this process leads, no other process can have held it in between.
            KnownLease::Present { .. } if self.leads(now) => now,
            // Another process may have acquired it between two reads, and may still lead.
            KnownLease::Present { record, .. } => {
                now + record.duration.map_or(self.timing.duration, |duration| duration.max(self.timing.duration))
            }
        };
        self.known = KnownLease::Absent { free_at };
    }

    fn take_in_record(&mut self, now: Instant, record: LeaseRecord) {
        let (mut since, mut moved, mut changed) = (now, true, true);
        if let KnownLease::Present { record: before, since: earlier } = &self.known {
            moved = before.version != record.version || before.uid != record.uid;
            if before.has_same_claim(&record) {
                (since, changed) = (*earlier, false);
            }
        }
        if record.holder.as_deref() != Some(&self.identity) {
            self.held_from = None;
        } else if changed && let Some(renewed) = record.renew_time {
            // The response of the write was lost.
            let began = self.unanswered.iter().find(|(_, time)| *time == renewed).map(|(began, _)| *began);
            if let Some(began) = began {
                self.confirm(began, now);
            }
        }
        if moved {
            // They were computed from an older version.
            self.unanswered.clear();
        }
        self.known = KnownLease::Present { record, since };
    }

    /// The time from which the lease may be acquired; `None` if this process holds it.
    fn free_at(&self) -> Option<Instant> {
        match &self.known {
            KnownLease::Unread => None,
            KnownLease::Absent { free_at } => Some(*free_at),
            KnownLease::Present { record, .. } if record.holder.as_deref() == Some(&self.identity) => None,
            KnownLease::Present { record, since } if record.holder.is_none() => Some(*since),
            KnownLease::Present { record, since } => Some(*since + record.duration.unwrap_or(self.timing.duration)),
        }
    }

    /// Processes a failed read of the Lease.
    pub(crate) fn fail_read(&mut self, now: Instant) {
        self.fresh = false;
        self.not_before = Some(now + self.timing.retry);
    }

    /// Begins a write, and returns the version to send (`None`: create the Lease) and the claim.
    pub(crate) fn begin_write(&mut self, now: Instant, wall: Timestamp) -> (Option<String>, LeaseClaim) {
        let mut renew_time = micros(wall);
        let mut claim = LeaseClaim {
            holder: self.identity.clone(),
            duration: self.timing.duration,
            acquire_time: renew_time,
            renew_time,
            transitions: 0,
        };
        let mut version = None;
        if let KnownLease::Present { record, .. } = &self.known {
            version = Some(record.version.clone());
            // A renewal must change the record, even if the wall clock was set back.
            if record.renew_time == Some(renew_time) {
                renew_time = renew_time.checked_add(SignedDuration::from_micros(1)).unwrap_or(renew_time);
            }
            (claim.renew_time, claim.acquire_time) = (renew_time, renew_time);
            claim.transitions = record.transitions.saturating_add(1);
            if record.holder.as_deref() == Some(&self.identity) {
                claim.transitions = record.transitions;
                claim.acquire_time = record.acquire_time.unwrap_or(renew_time);
            }
        }
        self.unanswered.retain(|(_, time)| *time != claim.renew_time);
        if self.unanswered.len() >= MAX_UNANSWERED {
            self.unanswered.remove(0);
        }
        self.unanswered.push((now, claim.renew_time));
        (version, claim)
    }

    /// Processes the result of the write that began at `began` with this `renewTime`.
    pub(crate) fn end_write(&mut self, began: Instant, renew_time: Timestamp, now: Instant, result: WriteResult) {
        // Another process was faster, or the response was lost: read soon, but not at once, so that two processes never
        // compete without a pause.
        let soon = Some(now + self.timing.retry / 10);
        if matches!(result, WriteResult::Conflict | WriteResult::Rejected) {
            self.unanswered.retain(|(_, time)| *time != renew_time);
        }
        (self.fresh, self.not_before) = match result {
            WriteResult::Done(record) => {
                self.known = KnownLease::Present { record, since: now };
                self.unanswered.clear();
                self.confirm(began, now);
                (true, Some(began + self.timing.retry))
            }
            WriteResult::Rejected => (false, Some(now + self.timing.retry)),
            WriteResult::Conflict | WriteResult::Unknown => (false, soon),
        };
    }

    fn confirm(&mut self, began: Instant, now: Instant) {
        let led = self.leads(now);
        self.held_from = Some(self.held_from.map_or(began, |before| before.max(began)));
        if !led && self.leads(now) {
            self.term += 1;
        }
    }
}
