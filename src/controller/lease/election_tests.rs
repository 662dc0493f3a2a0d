//! The election: a table of cases, and simulated processes with a server that behaves in every bad way that the API
//! allows.

#![allow(clippy::unwrap_used, clippy::indexing_slicing, clippy::panic, reason = "tests")]

use std::time::Duration;

use jiff::Timestamp;
use proptest::prelude::*;
use tokio::time::Instant;

use crate::controller::lease::election::{Election, NextStep, WriteResult};
use crate::controller::lease::record::{LeaseClaim, LeaseRecord};
use crate::controller::lease::timing::LeaseTiming;

const TIMING: fn() -> LeaseTiming = || LeaseTiming::of_seconds(15);
const RETRY: Duration = Duration::from_secs(2);

fn secs(seconds: u64) -> Duration {
    Duration::from_secs(seconds)
}

fn wall(micros: i64) -> Timestamp {
    Timestamp::from_microsecond(1_700_000_000_000_000 + micros).unwrap()
}

fn record(version: &str, holder: &str, renewed: i64) -> LeaseRecord {
    LeaseRecord {
        version: version.to_owned(),
        uid: Some("u".to_owned()),
        holder: Some(holder.to_owned()).filter(|holder| !holder.is_empty()),
        duration: Some(secs(15)),
        acquire_time: Some(wall(0)),
        renew_time: Some(wall(renewed)),
        transitions: 4,
    }
}

/// The record that the server stores for a claim.
fn stored(claim: &LeaseClaim, version: u64, uid: u64) -> LeaseRecord {
    LeaseRecord {
        version: version.to_string(),
        uid: Some(uid.to_string()),
        holder: Some(claim.holder.clone()).filter(|holder| !holder.is_empty()),
        duration: Some(claim.duration),
        acquire_time: Some(claim.acquire_time),
        renew_time: Some(claim.renew_time),
        transitions: claim.transitions,
    }
}

/// A process that leads since `now`, by record version 1.
fn leader(now: Instant) -> Election {
    let mut me = Election::new("me".to_owned(), TIMING());
    me.end_read(now, None, 0.0);
    let (version, claim) = me.begin_write(now, wall(1));
    assert_eq!((version, claim.transitions), (None, 0));
    me.end_write(now, claim.renew_time, now, WriteResult::Done(stored(&claim, 1, 1)));
    assert!(me.leads(now) && me.next_step(now) == NextStep::Wait(RETRY));
    me
}

#[test]
fn the_lease_is_taken_when_it_is_free() {
    let now = Instant::now();
    let other = |seconds: Option<u64>| LeaseRecord { duration: seconds.map(secs), ..record("7", "other", 0) };
    let cases: [(&str, Option<LeaseRecord>, Duration); 8] = [
        ("no lease", None, secs(0)),
        ("released", Some(LeaseRecord { duration: Some(secs(1)), ..record("7", "", 0) }), secs(0)),
        (
            "broken: no holder, no duration",
            Some(LeaseRecord { version: "7".to_owned(), ..LeaseRecord::default() }),
            secs(0),
        ),
        ("held", Some(other(Some(15))), secs(15)),
        ("held for longer", Some(other(Some(60))), secs(60)),
        ("held for a moment", Some(other(Some(1))), secs(1)),
        ("broken: held, and no duration", Some(other(None)), secs(15)),
        ("ours, of an earlier write", Some(record("7", "me", 0)), secs(0)),
    ];
    for (what, found, expected) in cases {
        let mut me = Election::new("me".to_owned(), TIMING());
        assert_eq!(me.next_step(now), NextStep::Read, "{what}");
        let mut at = now;
        loop {
            me.end_read(at, found.clone(), 0.0);
            match me.next_step(at) {
                NextStep::Write => break,
                NextStep::Wait(wait) => at += wait,
                NextStep::Read => panic!("{what}: read again without a pause"),
            }
            assert_eq!(me.next_step(at), NextStep::Read, "{what}: no write follows from an old read");
        }
        assert_eq!(at - now, expected, "{what}");
        assert!(!me.leads(at), "{what}: a read alone makes no leader");
        let (version, claim) = me.begin_write(at, wall(9));
        assert_eq!(version, found.as_ref().map(|record| record.version.clone()), "{what}");
        let ours = found.as_ref().is_some_and(|record| record.holder.as_deref() == Some("me"));
        let transitions = found.as_ref().map_or(0, |record| record.transitions + i32::from(!ours));
        assert_eq!(claim.transitions, transitions, "{what}");
        assert_eq!(claim.acquire_time, if ours { wall(0) } else { wall(9) }, "{what}");
        me.end_write(at, claim.renew_time, at + secs(1), WriteResult::Done(stored(&claim, 8, 1)));
        // The term counts from the beginning of the write.
        assert!(me.leads(at + secs(9)) && !me.leads(at + secs(10)), "{what}");
    }
}

#[test]
fn waiting_processes_read_at_different_times() {
    let now = Instant::now();
    for (jitter, expected) in [(0.0, 2.0), (0.5, 3.2), (1.0, 4.4), (f64::INFINITY, 4.4)] {
        let mut me = Election::new("me".to_owned(), TIMING());
        me.end_read(now, Some(record("7", "other", 0)), jitter);
        assert_eq!(me.next_step(now), NextStep::Wait(Duration::from_secs_f64(expected)), "{jitter}");
    }
}

#[test]
fn a_change_of_the_claim_restarts_the_wait_and_labels_do_not() {
    let now = Instant::now();
    let mut me = Election::new("me".to_owned(), TIMING());
    me.end_read(now, Some(record("7", "other", 0)), 0.0);
    me.end_read(now + secs(14), Some(record("8", "other", 1)), 0.0);
    me.end_read(now + secs(28), Some(record("9", "other", 1)), 0.0);
    assert_eq!(me.next_step(now + secs(28)), NextStep::Wait(secs(1)));
    me.end_read(now + secs(29), Some(record("10", "other", 1)), 0.0);
    assert_eq!(me.next_step(now + secs(29)), NextStep::Write);
    assert_eq!(me.begin_write(now + secs(29), wall(2)).0.as_deref(), Some("10"), "the newest version");
}

#[test]
fn a_leader_without_responses_stops_and_leads_again_in_another_term() {
    let now = Instant::now();
    let mut me = leader(now);
    let (first, until) = me.hold().unwrap();
    assert_eq!(until, now + secs(10));
    // From here on the server responds with 503.
    let mut at = now + RETRY;
    while me.leads(at) {
        assert_ne!(me.next_step(at), NextStep::Wait(secs(0)));
        match me.next_step(at) {
            NextStep::Wait(wait) => at += wait,
            NextStep::Read => me.fail_read(at),
            NextStep::Write => {
                let (_, claim) = me.begin_write(at, wall(5));
                me.end_write(at, claim.renew_time, at, WriteResult::Unknown);
            }
        }
        assert!(at < now + secs(20));
    }
    assert!(me.may_hold(), "to be released at the end");
    // The lease still belongs to this process, because no other process acquired it.
    let at = now + secs(30);
    me.end_read(at, Some(LeaseRecord { version: "1".to_owned(), ..record("1", "me", 1) }), 0.0);
    assert_eq!(me.next_step(at), NextStep::Write);
    let (_, claim) = me.begin_write(at, wall(6));
    me.end_write(at, claim.renew_time, at, WriteResult::Done(stored(&claim, 2, 1)));
    assert!(me.leads(at));
    assert_eq!(me.hold().unwrap().0, first + 1);
    // A renewal in time continues the same term.
    let (_, claim) = me.begin_write(at + RETRY, wall(7));
    me.end_write(at + RETRY, claim.renew_time, at + RETRY, WriteResult::Done(stored(&claim, 3, 1)));
    assert_eq!(me.hold().unwrap(), (first + 1, at + RETRY + secs(10)));
}

#[test]
fn a_write_whose_response_is_lost_counts_from_its_beginning() {
    let now = Instant::now();
    let mut me = leader(now);
    let began = now + RETRY;
    let (_, claim) = me.begin_write(began, wall(2));
    me.end_write(began, claim.renew_time, began + secs(5), WriteResult::Unknown);
    let at = began + secs(6);
    assert_eq!(me.next_step(at), NextStep::Read);
    me.end_read(at, Some(stored(&claim, 2, 1)), 0.0);
    assert_eq!(me.hold().unwrap(), (1, began + secs(10)));

    // Two writes had no response, and the Lease contains the time of one.
    let mut me = leader(now);
    let (_, first) = me.begin_write(began, wall(2));
    me.end_write(began, first.renew_time, began + secs(3), WriteResult::Unknown);
    me.end_read(began + secs(4), Some(stored(&LeaseClaim { renew_time: wall(1), ..first.clone() }, 1, 1)), 0.0);
    let (_, second) = me.begin_write(began + secs(4), wall(6));
    me.end_write(began + secs(4), second.renew_time, began + secs(5), WriteResult::Unknown);
    me.end_read(began + secs(6), Some(stored(&first, 2, 1)), 0.0);
    assert_eq!(me.hold().unwrap(), (1, began + secs(10)));

    // A write with a conflict did not happen, and a change of other fields is not a renewal.
    let mut me = leader(now);
    let (_, claim) = me.begin_write(began, wall(2));
    me.end_write(began, claim.renew_time, began, WriteResult::Conflict);
    me.end_read(
        began + secs(1),
        Some(LeaseRecord { version: "9".to_owned(), transitions: 0, ..record("9", "me", 1) }),
        0.0,
    );
    assert_eq!(me.hold().unwrap(), (1, now + secs(10)));
    assert_eq!(me.next_step(began + secs(1)), NextStep::Write);
}

#[test]
fn a_lease_that_is_taken_away_is_no_longer_held() {
    let now = Instant::now();
    for found in [record("9", "another", 1), record("9", "", 1)] {
        let mut me = leader(now);
        me.end_read(now + secs(1), Some(found), 0.0);
        assert!(!me.leads(now + secs(1)));
    }
}

#[test]
fn a_deleted_lease_is_created_again_by_the_leader_only() {
    let now = Instant::now();
    let mut me = leader(now);
    me.end_read(now + secs(3), None, 0.0);
    assert!(me.leads(now + secs(3)) && me.next_step(now + secs(3)) == NextStep::Write);
    assert_eq!(me.begin_write(now + secs(3), wall(5)).0, None, "to be created");

    let mut other = Election::new("other".to_owned(), TIMING());
    other.end_read(now, Some(record("1", "me", 1)), 0.0);
    for seconds in [3, 9, 17] {
        other.end_read(now + secs(seconds), None, 0.0);
        assert!(matches!(other.next_step(now + secs(seconds)), NextStep::Wait(_)), "after {seconds} s");
    }
    other.end_read(now + secs(18), None, 0.0);
    assert_eq!(other.next_step(now + secs(18)), NextStep::Write);
}

#[test]
fn a_rejected_write_is_tried_again_after_a_pause() {
    let now = Instant::now();
    let mut me = Election::new("me".to_owned(), TIMING());
    me.fail_read(now);
    assert_eq!(me.next_step(now), NextStep::Wait(RETRY));
    me.end_read(now, None, 0.0);
    let (_, claim) = me.begin_write(now, wall(1));
    me.end_write(now, claim.renew_time, now, WriteResult::Rejected);
    assert!(me.next_step(now) == NextStep::Wait(RETRY) && me.next_step(now + RETRY) == NextStep::Read);
    assert!(!me.may_hold());
}

#[test]
fn a_wall_clock_that_stands_still_does_not_prevent_renewals() {
    let now = Instant::now();
    let mut me = leader(now);
    let (_, claim) = me.begin_write(now + RETRY, wall(1));
    assert_eq!(claim.renew_time, wall(2));
}

/// An event in a simulation of processes and one server.
#[derive(Debug, Clone)]
enum Event {
    /// Time passes, in milliseconds.
    Pass(u32),
    /// A process does its next step, unless it waits for a response.
    Act(usize),
    /// The server executes the request of a process.
    Serve(usize),
    /// The response reaches the process.
    Response(usize),
    /// No response reaches the process; the server may execute the request any time later.
    Lose(usize),
    /// The server executes a request that no process waits for.
    ServeLate(usize),
    /// A process ends and releases the lease, or is killed; another takes its place.
    Replace(usize, bool),
    /// A user labels the Lease.
    Label,
    /// A user deletes the Lease.
    Delete,
}

fn events() -> impl Strategy<Value = Vec<Event>> {
    let process = 0..3_usize;
    let event = prop_oneof![
        6 => prop_oneof![0..300_u32, 300..5_000_u32, 5_000..20_000_u32].prop_map(Event::Pass),
        12 => process.clone().prop_map(Event::Act),
        10 => process.clone().prop_map(Event::Serve),
        10 => process.clone().prop_map(Event::Response),
        2 => process.clone().prop_map(Event::Lose),
        1 => (0..8_usize).prop_map(Event::ServeLate),
        1 => (process, any::<bool>()).prop_map(|(process, releases)| Event::Replace(process, releases)),
        1 => Just(Event::Label),
        1 => Just(Event::Delete),
    ];
    // Most requests get a response, because otherwise no process would ever lead. Some responses are late: other
    // processes act meanwhile, or the process was stopped.
    let pause = prop_oneof![4 => Just(0), 1 => 0..16_000_u32].prop_map(Event::Pass);
    let turn = (0..3_usize, pause.clone(), pause).prop_map(|(process, one, two)| {
        vec![Event::Act(process), one, Event::Serve(process), two, Event::Response(process)]
    });
    let events = prop_oneof![3 => turn, 2 => event.prop_map(|event| vec![event])];
    prop::collection::vec(events, 0..150).prop_map(|events| events.concat())
}

#[derive(Debug, Clone)]
enum Request {
    Read,
    Write(Option<String>, LeaseClaim),
}

#[derive(Debug, Clone)]
enum Response {
    Read(Option<LeaseRecord>),
    Written(WriteResult),
}

struct Process {
    election: Election,
    name: String,
    /// Whether a Lease existed when it last read.
    seen: bool,
    request: Option<(Instant, Request)>,
    response: Option<Response>,
}

impl Process {
    fn new(name: String) -> Self {
        let election = Election::new(name.clone(), TIMING());
        Self { election, name, seen: false, request: None, response: None }
    }

    fn begin(&mut self, now: Instant, wall: Timestamp) {
        if self.request.is_some() {
            return;
        }
        self.request = match self.election.next_step(now) {
            NextStep::Wait(_) => None,
            NextStep::Read => Some((now, Request::Read)),
            NextStep::Write => {
                let (version, claim) = self.election.begin_write(now, wall);
                Some((now, Request::Write(version, claim)))
            }
        };
    }

    fn end(&mut self, now: Instant, lost: bool, jitter: f64) {
        let Some((began, request)) = self.request.take() else { return };
        let response = self.response.take().filter(|_| !lost);
        match (request, response) {
            (Request::Read, Some(Response::Read(lease))) => {
                self.seen = lease.is_some();
                self.election.end_read(now, lease, jitter);
            }
            (Request::Write(_, claim), Some(Response::Written(outcome))) => {
                self.seen |= matches!(outcome, WriteResult::Done(_));
                self.election.end_write(began, claim.renew_time, now, outcome);
            }
            (Request::Read, _) => self.election.fail_read(now),
            (Request::Write(_, claim), _) => {
                self.election.end_write(began, claim.renew_time, now, WriteResult::Unknown);
            }
        }
    }
}

#[derive(Default)]
struct Server {
    lease: Option<LeaseRecord>,
    versions: u64,
}

impl Server {
    fn serve(&mut self, request: &Request) -> Response {
        let (version, claim) = match request {
            Request::Read => return Response::Read(self.lease.clone()),
            Request::Write(version, claim) => (version, claim),
        };
        let current = self.lease.as_ref().map(|lease| &lease.version);
        if current != version.as_ref() {
            return Response::Written(WriteResult::Conflict);
        }
        self.versions += 1;
        let uid = self.lease.as_ref().and_then(|lease| lease.uid.clone()?.parse().ok()).unwrap_or(self.versions);
        let lease = stored(claim, self.versions, uid);
        self.lease = Some(lease.clone());
        Response::Written(WriteResult::Done(lease))
    }
}

struct Simulation {
    now: Instant,
    started: Instant,
    server: Server,
    processes: Vec<Process>,
    late: Vec<Request>,
    named: usize,
}

impl Simulation {
    fn new() -> Self {
        let (now, processes) = (Instant::now(), (0..3).map(|number| Process::new(format!("p{number}"))).collect());
        Self { now, started: now, server: Server::default(), processes, late: Vec::new(), named: 3 }
    }

    fn wall(&self) -> Timestamp {
        wall(i64::try_from((self.now - self.started).as_micros()).unwrap())
    }

    fn leaders(&self) -> Vec<&str> {
        let leaders = self.processes.iter().filter(|process| process.election.leads(self.now));
        leaders.map(|process| process.name.as_str()).collect()
    }

    fn happen(&mut self, event: &Event) {
        let (now, wall) = (self.now, self.wall());
        match *event {
            Event::Pass(millis) => self.now += Duration::from_millis(millis.into()),
            Event::Act(process) => self.processes[process].begin(now, wall),
            Event::Serve(process) => {
                let process = &mut self.processes[process];
                if let (Some((_, request)), None) = (&process.request, &process.response) {
                    process.response = Some(self.server.serve(request));
                }
            }
            Event::Response(process) if self.processes[process].response.is_some() => {
                self.processes[process].end(
                    now,
                    false,
                    f64::from(now.duration_since(self.started).subsec_millis()) / 1e3,
                );
            }
            Event::Lose(process) => {
                let process = &mut self.processes[process];
                if let (Some((_, request)), None) = (&process.request, &process.response) {
                    self.late.push(request.clone());
                }
                process.end(now, true, 0.0);
            }
            Event::ServeLate(which) if !self.late.is_empty() => {
                let request = self.late.remove(which % self.late.len());
                self.server.serve(&request);
            }
            // If there is no Lease, a process creates one immediately, which may cause a second leader.
            Event::Replace(process, releases) if self.server.lease.is_some() => {
                let name = format!("p{}", self.named);
                self.named += 1;
                let old = std::mem::replace(&mut self.processes[process], Process::new(name));
                self.late.extend(old.request.map(|(_, request)| request));
                let lease = self.server.lease.clone().filter(|lease| lease.holder.as_ref() == Some(&old.name));
                if let (true, Some(lease)) = (releases, lease) {
                    let release = Request::Write(Some(lease.version.clone()), LeaseClaim::release(&lease, wall));
                    // Immediately, or late.
                    if self.named.is_multiple_of(2) {
                        self.server.serve(&release);
                    } else {
                        self.late.push(release);
                    }
                }
            }
            Event::Response(_) | Event::ServeLate(_) | Event::Replace(..) => {}
            Event::Label => {
                if let Some(lease) = &mut self.server.lease {
                    self.server.versions += 1;
                    lease.version = self.server.versions.to_string();
                }
            }
            Event::Delete => {
                if self.processes.iter().all(|process| process.seen) {
                    self.server.lease = None;
                }
            }
        }
    }

    /// A process works without disruptions until it leads.
    fn until_leading(&mut self, process: usize) -> Duration {
        let start = self.now;
        self.processes[process].end(start, true, 0.0);
        while !self.processes[process].election.leads(self.now) {
            assert!(self.now - start < secs(120), "{:?}", self.processes[process].election);
            if let NextStep::Wait(wait) = self.processes[process].election.next_step(self.now) {
                self.now += wait;
            }
            for event in [Event::Act(process), Event::Pass(5), Event::Serve(process), Event::Response(process)] {
                self.happen(&event);
            }
        }
        self.now - start
    }
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(400))]

    #[test]
    fn never_two_leaders(events in events()) {
        let mut simulation = Simulation::new();
        for (number, event) in events.iter().enumerate() {
            simulation.happen(event);
            let leaders = simulation.leaders();
            prop_assert!(leaders.len() <= 1, "{leaders:?} after {number}: {event:?}");
        }
    }

    #[test]
    fn if_all_others_are_gone_one_leads_soon(events in events(), process in 0..3_usize) {
        let mut simulation = Simulation::new();
        for event in &events {
            simulation.happen(event);
        }
        simulation.late.clear();
        let took = simulation.until_leading(process);
        // A lease, a read before it, and a request that fails first.
        prop_assert!(took < secs(15 + 5 + 5), "{took:?}");
    }
}

/// In the simulation, processes lead one after the other, and lose responses that matter.
#[test]
fn leaders_change_in_the_simulation() {
    use proptest::strategy::ValueTree as _;
    let mut runner = proptest::test_runner::TestRunner::deterministic();
    let (mut takeovers, mut recovered) = (0, 0);
    for _ in 0..400 {
        let events = events().new_tree(&mut runner).unwrap().current();
        let mut simulation = Simulation::new();
        let mut last = None;
        for event in &events {
            let led = simulation.leaders().len();
            simulation.happen(event);
            let leader = simulation.leaders().first().map(|name| (*name).to_owned());
            takeovers += usize::from(leader.is_some() && last.is_some() && leader != last);
            recovered += usize::from(led == 0 && leader.is_some() && matches!(event, Event::Response(_)));
            last = leader.or(last);
        }
    }
    assert!(takeovers > 50 && recovered > 50, "{takeovers} takeovers, {recovered} began to lead");
}
