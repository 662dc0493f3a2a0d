//! The election: a table of what is done when, and processes that meet at a server that is as unkind as allowed.

#![allow(clippy::unwrap_used, clippy::indexing_slicing, clippy::panic, reason = "tests")]

use std::time::Duration;

use jiff::Timestamp;
use proptest::prelude::*;
use tokio::time::Instant;

use crate::controller::lease::Timing;
use crate::controller::lease::election::{Election, Step, Written};
use crate::controller::lease::record::{Claim, Record};

const TIMING: fn() -> Timing = || Timing::of_seconds(15);
const RETRY: Duration = Duration::from_secs(2);

fn secs(seconds: u64) -> Duration {
    Duration::from_secs(seconds)
}

fn wall(micros: i64) -> Timestamp {
    Timestamp::from_microsecond(1_700_000_000_000_000 + micros).unwrap()
}

fn record(version: &str, holder: &str, renewed: i64) -> Record {
    Record {
        version: version.to_owned(),
        uid: Some("u".to_owned()),
        holder: Some(holder.to_owned()).filter(|holder| !holder.is_empty()),
        duration: Some(secs(15)),
        acquire_time: Some(wall(0)),
        renew_time: Some(wall(renewed)),
        transitions: 4,
    }
}

/// What the server stores of a claim.
fn stored(claim: &Claim, version: u64, uid: u64) -> Record {
    Record {
        version: version.to_string(),
        uid: Some(uid.to_string()),
        holder: Some(claim.holder.clone()).filter(|holder| !holder.is_empty()),
        duration: Some(claim.duration),
        acquire_time: Some(claim.acquire_time),
        renew_time: Some(claim.renew_time),
        transitions: claim.transitions,
    }
}

/// One that leads since `now`, by record version 1.
fn leader(now: Instant) -> Election {
    let mut me = Election::new("me".to_owned(), TIMING());
    me.read(now, None, 0.0);
    let (version, claim) = me.begin(now, wall(1));
    assert_eq!((version, claim.transitions), (None, 0));
    me.written(now, claim.renew_time, now, Written::Done(stored(&claim, 1, 1)));
    assert!(me.leads(now) && me.next(now) == Step::Wait(RETRY));
    me
}

#[test]
fn what_is_found_decides_when_it_is_taken() {
    let now = Instant::now();
    let other = |seconds: Option<u64>| Record { duration: seconds.map(secs), ..record("7", "other", 0) };
    let cases: [(&str, Option<Record>, Duration); 8] = [
        ("no lease", None, secs(0)),
        ("vacated", Some(Record { duration: Some(secs(1)), ..record("7", "", 0) }), secs(0)),
        ("broken: no holder, no duration", Some(Record { version: "7".to_owned(), ..Record::default() }), secs(0)),
        ("held", Some(other(Some(15))), secs(15)),
        ("held for longer", Some(other(Some(60))), secs(60)),
        ("held for a moment", Some(other(Some(1))), secs(1)),
        ("broken: held, and no duration", Some(other(None)), secs(15)),
        ("ours, of an earlier write", Some(record("7", "me", 0)), secs(0)),
    ];
    for (what, found, expected) in cases {
        let mut me = Election::new("me".to_owned(), TIMING());
        assert_eq!(me.next(now), Step::Read, "{what}");
        let mut at = now;
        loop {
            me.read(at, found.clone(), 0.0);
            match me.next(at) {
                Step::Write => break,
                Step::Wait(wait) => at += wait,
                Step::Read => panic!("{what}: asked again without a pause"),
            }
            assert_eq!(me.next(at), Step::Read, "{what}: nothing is written on what was read long ago");
        }
        assert_eq!(at - now, expected, "{what}");
        assert!(!me.leads(at), "{what}: nobody leads by reading");
        let (version, claim) = me.begin(at, wall(9));
        assert_eq!(version, found.as_ref().map(|record| record.version.clone()), "{what}");
        let ours = found.as_ref().is_some_and(|record| record.holder.as_deref() == Some("me"));
        let transitions = found.as_ref().map_or(0, |record| record.transitions + i32::from(!ours));
        assert_eq!(claim.transitions, transitions, "{what}");
        assert_eq!(claim.acquire_time, if ours { wall(0) } else { wall(9) }, "{what}");
        me.written(at, claim.renew_time, at + secs(1), Written::Done(stored(&claim, 8, 1)));
        // Counted from when the write began.
        assert!(me.leads(at + secs(9)) && !me.leads(at + secs(10)), "{what}");
    }
}

#[test]
fn those_who_wait_look_at_different_times() {
    let now = Instant::now();
    for (jitter, expected) in [(0.0, 2.0), (0.5, 3.2), (1.0, 4.4), (f64::INFINITY, 4.4)] {
        let mut me = Election::new("me".to_owned(), TIMING());
        me.read(now, Some(record("7", "other", 0)), jitter);
        assert_eq!(me.next(now), Step::Wait(Duration::from_secs_f64(expected)), "{jitter}");
    }
}

#[test]
fn a_record_that_changes_is_waited_for_anew_and_labels_are_no_change() {
    let now = Instant::now();
    let mut me = Election::new("me".to_owned(), TIMING());
    me.read(now, Some(record("7", "other", 0)), 0.0);
    me.read(now + secs(14), Some(record("8", "other", 1)), 0.0);
    me.read(now + secs(28), Some(record("9", "other", 1)), 0.0);
    assert_eq!(me.next(now + secs(28)), Step::Wait(secs(1)));
    me.read(now + secs(29), Some(record("10", "other", 1)), 0.0);
    assert_eq!(me.next(now + secs(29)), Step::Write);
    assert_eq!(me.begin(now + secs(29), wall(2)).0.as_deref(), Some("10"), "the newest version all the same");
}

#[test]
fn a_leader_that_is_not_heard_stops_and_comes_back_as_another_term() {
    let now = Instant::now();
    let mut me = leader(now);
    let (first, until) = me.hold().unwrap();
    assert_eq!(until, now + secs(10));
    // 503s from here on.
    let mut at = now + RETRY;
    while me.leads(at) {
        assert_ne!(me.next(at), Step::Wait(secs(0)));
        match me.next(at) {
            Step::Wait(wait) => at += wait,
            Step::Read => me.read_failed(at),
            Step::Write => {
                let (_, claim) = me.begin(at, wall(5));
                me.written(at, claim.renew_time, at, Written::Unknown);
            }
        }
        assert!(at < now + secs(20));
    }
    assert!(me.may_hold(), "to be given up at the end all the same");
    // Ours still: nobody else wanted it.
    let at = now + secs(30);
    me.read(at, Some(Record { version: "1".to_owned(), ..record("1", "me", 1) }), 0.0);
    assert_eq!(me.next(at), Step::Write);
    let (_, claim) = me.begin(at, wall(6));
    me.written(at, claim.renew_time, at, Written::Done(stored(&claim, 2, 1)));
    assert!(me.leads(at));
    assert_eq!(me.hold().unwrap().0, first + 1);
    // A renewal in time is the same term.
    let (_, claim) = me.begin(at + RETRY, wall(7));
    me.written(at + RETRY, claim.renew_time, at + RETRY, Written::Done(stored(&claim, 3, 1)));
    assert_eq!(me.hold().unwrap(), (first + 1, at + RETRY + secs(10)));
}

#[test]
fn an_answer_that_got_lost_counts_from_when_its_write_began() {
    let now = Instant::now();
    let mut me = leader(now);
    let began = now + RETRY;
    let (_, claim) = me.begin(began, wall(2));
    me.written(began, claim.renew_time, began + secs(5), Written::Unknown);
    let at = began + secs(6);
    assert_eq!(me.next(at), Step::Read);
    me.read(at, Some(stored(&claim, 2, 1)), 0.0);
    assert_eq!(me.hold().unwrap(), (1, began + secs(10)));

    // Of two without an answer, it is the one whose time the Lease carries.
    let mut me = leader(now);
    let (_, first) = me.begin(began, wall(2));
    me.written(began, first.renew_time, began + secs(3), Written::Unknown);
    me.read(began + secs(4), Some(stored(&Claim { renew_time: wall(1), ..first.clone() }, 1, 1)), 0.0);
    let (_, second) = me.begin(began + secs(4), wall(6));
    me.written(began + secs(4), second.renew_time, began + secs(5), Written::Unknown);
    me.read(began + secs(6), Some(stored(&first, 2, 1)), 0.0);
    assert_eq!(me.hold().unwrap(), (1, began + secs(10)));

    // What conflicted did not happen, and what others changed about the Lease is no renewal.
    let mut me = leader(now);
    let (_, claim) = me.begin(began, wall(2));
    me.written(began, claim.renew_time, began, Written::Conflict);
    me.read(began + secs(1), Some(Record { version: "9".to_owned(), transitions: 0, ..record("9", "me", 1) }), 0.0);
    assert_eq!(me.hold().unwrap(), (1, now + secs(10)));
    assert_eq!(me.next(began + secs(1)), Step::Write);
}

#[test]
fn a_lease_that_is_taken_away_is_no_longer_held() {
    let now = Instant::now();
    for found in [record("9", "somebody", 1), record("9", "", 1)] {
        let mut me = leader(now);
        me.read(now + secs(1), Some(found), 0.0);
        assert!(!me.leads(now + secs(1)));
    }
}

#[test]
fn a_deleted_lease_is_put_back_by_the_leader_and_left_alone_by_others() {
    let now = Instant::now();
    let mut me = leader(now);
    me.read(now + secs(3), None, 0.0);
    assert!(me.leads(now + secs(3)) && me.next(now + secs(3)) == Step::Write);
    assert_eq!(me.begin(now + secs(3), wall(5)).0, None, "to be created");

    let mut other = Election::new("other".to_owned(), TIMING());
    other.read(now, Some(record("1", "me", 1)), 0.0);
    for seconds in [3, 9, 17] {
        other.read(now + secs(seconds), None, 0.0);
        assert!(matches!(other.next(now + secs(seconds)), Step::Wait(_)), "after {seconds} s");
    }
    other.read(now + secs(18), None, 0.0);
    assert_eq!(other.next(now + secs(18)), Step::Write);
}

#[test]
fn what_is_refused_is_tried_again_after_a_pause() {
    let now = Instant::now();
    let mut me = Election::new("me".to_owned(), TIMING());
    me.read_failed(now);
    assert_eq!(me.next(now), Step::Wait(RETRY));
    me.read(now, None, 0.0);
    let (_, claim) = me.begin(now, wall(1));
    me.written(now, claim.renew_time, now, Written::Refused);
    assert!(me.next(now) == Step::Wait(RETRY) && me.next(now + RETRY) == Step::Read);
    assert!(!me.may_hold());
}

#[test]
fn a_wall_clock_that_stands_still_renews_all_the_same() {
    let now = Instant::now();
    let mut me = leader(now);
    let (_, claim) = me.begin(now + RETRY, wall(1));
    assert_eq!(claim.renew_time, wall(2));
}

/// What may happen next, in a snapshot of processes and one server.
#[derive(Debug, Clone)]
enum Event {
    /// Time goes on, in milliseconds.
    Pass(u32),
    /// A process does what it is up to; not if it waits for an answer.
    Act(usize),
    /// The server carries out what a process asked.
    Serve(usize),
    /// The answer reaches the process.
    Answer(usize),
    /// No answer reaches the process; the server may carry out the request any time later.
    Lose(usize),
    /// The server carries out a request that nobody waits for any more.
    ServeLate(usize),
    /// A process ends and gives the lease up, or is killed; another takes its place.
    Replace(usize, bool),
    /// Somebody labels the Lease.
    Label,
    /// Somebody deletes the Lease.
    Delete,
}

fn events() -> impl Strategy<Value = Vec<Event>> {
    let who = 0..3_usize;
    let event = prop_oneof![
        6 => prop_oneof![0..300_u32, 300..5_000_u32, 5_000..20_000_u32].prop_map(Event::Pass),
        12 => who.clone().prop_map(Event::Act),
        10 => who.clone().prop_map(Event::Serve),
        10 => who.clone().prop_map(Event::Answer),
        2 => who.clone().prop_map(Event::Lose),
        1 => (0..8_usize).prop_map(Event::ServeLate),
        1 => (who, any::<bool>()).prop_map(|(who, vacates)| Event::Replace(who, vacates)),
        1 => Just(Event::Label),
        1 => Just(Event::Delete),
    ];
    // Most requests are served and answered; else nobody would get anywhere.
    // Some answers come late: others act meanwhile, in their own turns, or the process was stopped.
    let pause = prop_oneof![4 => Just(0), 1 => 0..16_000_u32].prop_map(Event::Pass);
    let turn = (0..3_usize, pause.clone(), pause)
        .prop_map(|(who, one, two)| vec![Event::Act(who), one, Event::Serve(who), two, Event::Answer(who)]);
    let events = prop_oneof![3 => turn, 2 => event.prop_map(|event| vec![event])];
    prop::collection::vec(events, 0..150).prop_map(|events| events.concat())
}

#[derive(Debug, Clone)]
enum Request {
    Read,
    Write(Option<String>, Claim),
}

#[derive(Debug, Clone)]
enum Answer {
    Found(Option<Record>),
    Written(Written),
}

struct Process {
    election: Election,
    name: String,
    /// Whether there was a Lease when it last looked.
    seen: bool,
    asked: Option<(Instant, Request)>,
    answered: Option<Answer>,
}

impl Process {
    fn new(name: String) -> Self {
        let election = Election::new(name.clone(), TIMING());
        Self { election, name, seen: false, asked: None, answered: None }
    }

    fn begin(&mut self, now: Instant, wall: Timestamp) {
        if self.asked.is_some() {
            return;
        }
        self.asked = match self.election.next(now) {
            Step::Wait(_) => None,
            Step::Read => Some((now, Request::Read)),
            Step::Write => {
                let (version, claim) = self.election.begin(now, wall);
                Some((now, Request::Write(version, claim)))
            }
        };
    }

    fn end(&mut self, now: Instant, lost: bool, jitter: f64) {
        let Some((began, request)) = self.asked.take() else { return };
        let answer = self.answered.take().filter(|_| !lost);
        match (request, answer) {
            (Request::Read, Some(Answer::Found(found))) => {
                self.seen = found.is_some();
                self.election.read(now, found, jitter);
            }
            (Request::Write(_, claim), Some(Answer::Written(outcome))) => {
                self.seen |= matches!(outcome, Written::Done(_));
                self.election.written(began, claim.renew_time, now, outcome);
            }
            (Request::Read, _) => self.election.read_failed(now),
            (Request::Write(_, claim), _) => {
                self.election.written(began, claim.renew_time, now, Written::Unknown);
            }
        }
    }
}

#[derive(Default)]
struct Server {
    lease: Option<Record>,
    versions: u64,
}

impl Server {
    fn serve(&mut self, request: &Request) -> Answer {
        let (version, claim) = match request {
            Request::Read => return Answer::Found(self.lease.clone()),
            Request::Write(version, claim) => (version, claim),
        };
        let standing = self.lease.as_ref().map(|lease| &lease.version);
        if standing != version.as_ref() {
            return Answer::Written(Written::Conflict);
        }
        self.versions += 1;
        let uid = self.lease.as_ref().and_then(|lease| lease.uid.clone()?.parse().ok()).unwrap_or(self.versions);
        let lease = stored(claim, self.versions, uid);
        self.lease = Some(lease.clone());
        Answer::Written(Written::Done(lease))
    }
}

struct ClusterSnapshot {
    now: Instant,
    started: Instant,
    server: Server,
    processes: Vec<Process>,
    late: Vec<Request>,
    named: usize,
}

impl ClusterSnapshot {
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
            Event::Act(who) => self.processes[who].begin(now, wall),
            Event::Serve(who) => {
                let process = &mut self.processes[who];
                if let (Some((_, request)), None) = (&process.asked, &process.answered) {
                    process.answered = Some(self.server.serve(request));
                }
            }
            Event::Answer(who) if self.processes[who].answered.is_some() => {
                self.processes[who].end(now, false, f64::from(now.duration_since(self.started).subsec_millis()) / 1e3);
            }
            Event::Lose(who) => {
                let process = &mut self.processes[who];
                if let (Some((_, request)), None) = (&process.asked, &process.answered) {
                    self.late.push(request.clone());
                }
                process.end(now, true, 0.0);
            }
            Event::ServeLate(which) if !self.late.is_empty() => {
                let request = self.late.remove(which % self.late.len());
                self.server.serve(&request);
            }
            // A process that knows of no Lease makes one: what it cannot see is not protected.
            Event::Replace(who, vacates) if self.server.lease.is_some() => {
                let name = format!("p{}", self.named);
                self.named += 1;
                let old = std::mem::replace(&mut self.processes[who], Process::new(name));
                self.late.extend(old.asked.map(|(_, request)| request));
                let lease = self.server.lease.clone().filter(|lease| lease.holder.as_ref() == Some(&old.name));
                if let (true, Some(lease)) = (vacates, lease) {
                    let vacate = Request::Write(Some(lease.version.clone()), Claim::vacate(&lease, wall));
                    // At once, or late.
                    if self.named.is_multiple_of(2) {
                        self.server.serve(&vacate);
                    } else {
                        self.late.push(vacate);
                    }
                }
            }
            Event::Answer(_) | Event::ServeLate(_) | Event::Replace(..) => {}
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

    /// A process works undisturbed until it leads.
    fn until_leading(&mut self, who: usize) -> Duration {
        let start = self.now;
        self.processes[who].end(start, true, 0.0);
        while !self.processes[who].election.leads(self.now) {
            assert!(self.now - start < secs(120), "{:?}", self.processes[who].election);
            if let Step::Wait(wait) = self.processes[who].election.next(self.now) {
                self.now += wait;
            }
            for event in [Event::Act(who), Event::Pass(5), Event::Serve(who), Event::Answer(who)] {
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
        let mut snapshot = ClusterSnapshot::new();
        for (number, event) in events.iter().enumerate() {
            snapshot.happen(event);
            let leaders = snapshot.leaders();
            prop_assert!(leaders.len() <= 1, "{leaders:?} after {number}: {event:?}");
        }
    }

    #[test]
    fn when_all_others_are_gone_one_leads_soon(events in events(), who in 0..3_usize) {
        let mut snapshot = ClusterSnapshot::new();
        for event in &events {
            snapshot.happen(event);
        }
        snapshot.late.clear();
        let took = snapshot.until_leading(who);
        // A lease, a look before and a request that fails first.
        prop_assert!(took < secs(15 + 5 + 5), "{took:?}");
    }
}

/// The world above is no desert: processes do lead in it, one after the other, and lose answers that matter.
#[test]
fn the_simulated_snapshot_is_one_in_which_leaders_change() {
    use proptest::strategy::ValueTree as _;
    let mut runner = proptest::test_runner::TestRunner::deterministic();
    let (mut takeovers, mut recovered) = (0, 0);
    for _ in 0..400 {
        let events = events().new_tree(&mut runner).unwrap().current();
        let mut snapshot = ClusterSnapshot::new();
        let mut last = None;
        for event in &events {
            let led = snapshot.leaders().len();
            snapshot.happen(event);
            let leader = snapshot.leaders().first().map(|name| (*name).to_owned());
            takeovers += usize::from(leader.is_some() && last.is_some() && leader != last);
            recovered += usize::from(led == 0 && leader.is_some() && matches!(event, Event::Answer(_)));
            last = leader.or(last);
        }
    }
    assert!(takeovers > 50 && recovered > 50, "{takeovers} takeovers, {recovered} began to lead");
}
