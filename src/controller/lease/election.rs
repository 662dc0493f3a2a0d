//! Who leads, decided from the Lease as read and this process's own clock. Pure: the times are arguments.

use std::time::Duration;

use jiff::{SignedDuration, Timestamp};
use tokio::time::Instant;

use crate::controller::lease::Timing;
use crate::controller::lease::record::{Claim, Record, micros};

/// By how much others stretch the waits between their looks, at most: client-go's `JitterFactor`.
const JITTER: f64 = 1.2;
/// How many writes without an answer are remembered; an older one could only tell that we lead for less long.
const UNANSWERED: usize = 16;

/// What one process knows of the lease, and whether it leads.
#[derive(Debug)]
pub(crate) struct Election {
    identity: String,
    timing: Timing,
    known: Known,
    /// Whether `known` is new enough to write against.
    fresh: bool,
    /// Nothing is asked or written before.
    not_before: Option<Instant>,
    /// When the last write that is known to have succeeded began.
    held_from: Option<Instant>,
    /// Writes that may have succeeded or yet succeed: when each began, and the `renewTime` it carries.
    unanswered: Vec<(Instant, Timestamp)>,
    /// How often this process began to lead.
    term: u64,
}

/// The Lease as it was last seen.
#[derive(Debug)]
enum Known {
    Unread,
    /// There is none, and none may be made before.
    Absent {
        free_at: Instant,
    },
    /// It has said the same since.
    Present {
        record: Record,
        since: Instant,
    },
}

/// What to do now.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) enum Step {
    Wait(Duration),
    Read,
    /// Create the Lease, or update it with the `resourceVersion` last read.
    Write,
}

/// How a write ended.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) enum Written {
    /// It succeeded; the Lease is now as here.
    Done(Record),
    /// Somebody was faster (409), or the Lease is gone (404).
    Conflict,
    /// It did not happen, and would not if it were tried again at once.
    Refused,
    /// No answer, or one that does not tell (5xx): it may have happened, and may yet happen.
    Unknown,
}

impl Election {
    pub(crate) fn new(identity: String, timing: Timing) -> Self {
        Self {
            identity,
            timing,
            known: Known::Unread,
            fresh: false,
            not_before: None,
            held_from: None,
            unanswered: Vec::new(),
            term: 0,
        }
    }

    /// What to do now.
    pub(crate) fn next(&self, now: Instant) -> Step {
        match self.not_before.and_then(|at| at.checked_duration_since(now)) {
            Some(wait) if !wait.is_zero() => Step::Wait(wait),
            _ if self.fresh => Step::Write,
            _ => Step::Read,
        }
    }

    /// The term that is led, and until when, unless something is heard first. Over, if that has passed.
    pub(crate) fn hold(&self) -> Option<(u64, Instant)> {
        self.held_from.map(|began| (self.term, began + self.timing.renew_deadline))
    }

    /// Whether this process leads.
    pub(crate) fn leads(&self, now: Instant) -> bool {
        self.hold().is_some_and(|(_, until)| now < until)
    }

    /// Who holds the lease, as far as is known.
    pub(crate) fn holder(&self) -> Option<&str> {
        match &self.known {
            Known::Present { record, .. } => record.holder.as_deref(),
            Known::Unread | Known::Absent { .. } => None,
        }
    }

    /// Whether the Lease may say that this process holds it.
    pub(crate) fn may_hold(&self) -> bool {
        self.holder() == Some(&self.identity) || !self.unanswered.is_empty()
    }

    /// Leads no more, whatever the Lease says.
    pub(crate) fn resign(&mut self) {
        self.held_from = None;
    }

    /// The Lease was read. `jitter`, from 0 to 1, spreads the looks of those that wait.
    pub(crate) fn read(&mut self, now: Instant, found: Option<Record>, jitter: f64) {
        match found {
            None => self.read_nothing(now),
            Some(record) => self.read_record(now, record),
        }
        let free_at = self.free_at();
        self.fresh = free_at.is_none_or(|at| at <= now);
        self.not_before = match free_at {
            // Ours: due, unless an answer that got lost was good news.
            None => self.held_from.filter(|_| self.leads(now)).map(|began| began + self.timing.retry),
            Some(at) => Some(at.min(now + self.timing.retry.mul_f64(1.0 + JITTER * jitter.clamp(0.0, 1.0)))),
        };
    }

    fn read_nothing(&mut self, now: Instant) {
        let free_at = match &self.known {
            Known::Absent { .. } => return,
            Known::Unread => now,
            // While we lead, nobody else can have made it ours and gone.
            Known::Present { .. } if self.leads(now) => now,
            // Somebody may have held it between our looks, and lead still.
            Known::Present { record, .. } => {
                now + record.duration.map_or(self.timing.duration, |duration| duration.max(self.timing.duration))
            }
        };
        self.known = Known::Absent { free_at };
    }

    fn read_record(&mut self, now: Instant, record: Record) {
        let (mut since, mut moved, mut changed) = (now, true, true);
        if let Known::Present { record: before, since: seen } = &self.known {
            moved = before.version != record.version || before.uid != record.uid;
            if before.same_claim(&record) {
                (since, changed) = (*seen, false);
            }
        }
        if record.holder.as_deref() != Some(&self.identity) {
            self.held_from = None;
        } else if changed && let Some(renewed) = record.renew_time {
            // A write whose answer got lost.
            let began = self.unanswered.iter().find(|(_, time)| *time == renewed).map(|(began, _)| *began);
            if let Some(began) = began {
                self.confirm(began, now);
            }
        }
        if moved {
            // They were computed from an older version.
            self.unanswered.clear();
        }
        self.known = Known::Present { record, since };
    }

    /// From when on the lease may be taken; `None` if it is ours.
    fn free_at(&self) -> Option<Instant> {
        match &self.known {
            Known::Unread => None,
            Known::Absent { free_at } => Some(*free_at),
            Known::Present { record, .. } if record.holder.as_deref() == Some(&self.identity) => None,
            Known::Present { record, since } if record.holder.is_none() => Some(*since),
            Known::Present { record, since } => Some(*since + record.duration.unwrap_or(self.timing.duration)),
        }
    }

    /// It could not be read.
    pub(crate) fn read_failed(&mut self, now: Instant) {
        self.fresh = false;
        self.not_before = Some(now + self.timing.retry);
    }

    /// The version to carry (none: to create the Lease), and what to write, now that the write begins.
    pub(crate) fn begin(&mut self, now: Instant, wall: Timestamp) -> (Option<String>, Claim) {
        let mut renew_time = micros(wall);
        let mut claim = Claim {
            holder: self.identity.clone(),
            duration: self.timing.duration,
            acquire_time: renew_time,
            renew_time,
            transitions: 0,
        };
        let mut version = None;
        if let Known::Present { record, .. } = &self.known {
            version = Some(record.version.clone());
            // Others see a renewal by what it changes, even if the wall clock was set back.
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
        if self.unanswered.len() >= UNANSWERED {
            self.unanswered.remove(0);
        }
        self.unanswered.push((now, claim.renew_time));
        (version, claim)
    }

    /// The write that began then and carried that `renewTime` ended.
    pub(crate) fn written(&mut self, began: Instant, renew_time: Timestamp, now: Instant, outcome: Written) {
        // Somebody's progress, or a lost answer: worth a look soon. Not at once, lest two fight without a pause.
        let soon = Some(now + self.timing.retry / 10);
        (self.fresh, self.not_before) = match outcome {
            Written::Done(record) => {
                self.known = Known::Present { record, since: now };
                self.unanswered.clear();
                self.confirm(began, now);
                (true, Some(began + self.timing.retry))
            }
            Written::Conflict => {
                self.unanswered.retain(|(_, time)| *time != renew_time);
                (false, soon)
            }
            Written::Refused => {
                self.unanswered.retain(|(_, time)| *time != renew_time);
                (false, Some(now + self.timing.retry))
            }
            Written::Unknown => (false, soon),
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
