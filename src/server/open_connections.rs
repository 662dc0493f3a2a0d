//! The open connections of one port, and the choice of the one that is closed when slots run out.
//!
//! | which connection is closed | when |
//! |---|---|
//! | unused (without a completed request) for [`ConnectionLimits::unused`] | three quarters of the slots are taken |
//! | the oldest unused one of the peer that has most of them | a new client finds no free slot |
//! | if there is none: the one that has been idle for the longest time | a new client finds no free slot |
//! | unused or idle for [`ConnectionLimits::idle`] | always |
//! | with a response that its client has not read for [`ConnectionLimits::response`] | always |
//!
//! Except in the last line, a connection with a pending request is never chosen: Go does not repeat a POST when the
//! server closes the connection, and the pod would be admitted without a review. If a request arrives on a connection
//! that was chosen, it gets a response with `Connection: close`, and another connection is chosen.

use std::cmp::Reverse;
use std::collections::{BTreeMap, BTreeSet, HashMap};
use std::net::IpAddr;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use tokio::sync::Notify;
use tokio::time::Instant;

use crate::server::connection_limits::ConnectionLimits;
use crate::server::metrics::ConnectionClose;

/// All open connections of one port.
#[derive(Debug)]
pub(crate) struct OpenConnections {
    limits: ConnectionLimits,
    table: Mutex<Table>,
    /// A connection ended or became idle, or a request arrived on a connection that was chosen to be closed. Only one
    /// task, the accept loop, waits for it.
    changed: Notify,
}

/// One open connection: it takes a slot until it is dropped. Only the task that serves the connection uses it.
#[derive(Debug)]
pub(crate) struct OpenConnection {
    all: Arc<OpenConnections>,
    id: u64,
    close: Arc<Notify>,
    /// Whether the server has handed over the whole response, which may not have reached the socket yet.
    response_complete: AtomicBool,
}

#[derive(Debug, Default)]
struct Table {
    last_id: u64,
    /// By ID, so the oldest is the first.
    connections: BTreeMap<u64, Entry>,
    /// The connections that can be closed as [`Activity::Unused`], by peer: when they were opened, and their IDs.
    unused: HashMap<IpAddr, BTreeSet<(Instant, u64)>>,
}

#[derive(Debug)]
struct Entry {
    peer: IpAddr,
    opened: Instant,
    activity: Activity,
    closing: Option<ConnectionClose>,
    close: Arc<Notify>,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Activity {
    /// No request has been completed and none is pending: a handshake, silence, or a part of a head.
    Unused,
    /// A request has been completed and none is pending, since then.
    Idle(Instant),
    /// The head of a request was read, and there is no response yet. The code that reads bodies and handles requests
    /// limits this time.
    Handling,
    /// The response is being written, since then.
    Responding(Instant),
}

impl Activity {
    fn is_under_way(self) -> bool {
        matches!(self, Self::Handling | Self::Responding(_))
    }
}

impl OpenConnections {
    /// No connections.
    pub(crate) fn new(limits: ConnectionLimits) -> Arc<Self> {
        Arc::new(Self { limits, table: Mutex::default(), changed: Notify::new() })
    }

    /// Takes a slot for a connection of `peer`, once there is one.
    pub(crate) async fn open(self: &Arc<Self>, peer: IpAddr) -> OpenConnection {
        loop {
            if let Some(connection) = self.try_open(peer, Instant::now()) {
                return connection;
            }
            self.changed.notified().await;
        }
    }

    /// Takes a slot. If there is none, chooses a connection to close, if one can be closed.
    fn try_open(self: &Arc<Self>, peer: IpAddr, now: Instant) -> Option<OpenConnection> {
        let mut table = self.lock();
        if table.connections.len() >= self.limits.connections {
            table.make_room();
            return None;
        }
        table.last_id += 1;
        let (id, peer, close) = (table.last_id, peer.to_canonical(), Arc::new(Notify::new()));
        let entry = Entry { peer, opened: now, activity: Activity::Unused, closing: None, close: Arc::clone(&close) };
        table.connections.insert(id, entry);
        table.unused.entry(peer).or_default().insert((now, id));
        Some(OpenConnection { all: Arc::clone(self), id, close, response_complete: AtomicBool::new(false) })
    }

    /// Closes the connections that have been unused, idle or without progress for too long.
    pub(crate) fn close_overdue(&self, now: Instant) {
        self.lock().close_overdue(&self.limits, now);
    }

    /// Waits until no connection is open. It must not be called while another task waits in [`OpenConnections::open`].
    pub(crate) async fn none_left(&self) {
        while !self.lock().connections.is_empty() {
            self.changed.notified().await;
        }
    }

    fn lock(&self) -> MutexGuard<'_, Table> {
        // Nothing in the table can panic, so a panic between two changes of it is not possible.
        self.table.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl Table {
    /// Chooses a connection to close, unless one is about to end anyway.
    fn make_room(&mut self) {
        if self.connections.values().any(|entry| entry.closing.is_some() && !entry.activity.is_under_way()) {
            return;
        }
        if let Some(id) = self.next_unused(None).or_else(|| self.longest_idle()) {
            self.close(id, ConnectionClose::NoSlot);
        }
    }

    /// The oldest unused connection of the peer with the most unused connections, among the peers that opened one until
    /// `latest`.
    fn next_unused(&self, latest: Option<Instant>) -> Option<u64> {
        let oldest = self.unused.values().filter_map(|unused| Some((unused.len(), Reverse(*unused.first()?))));
        let old_enough = oldest.filter(|(_, Reverse((opened, _)))| latest.is_none_or(|latest| *opened <= latest));
        let (_, Reverse((_, id))) = old_enough.max()?;
        Some(id)
    }

    fn longest_idle(&self) -> Option<u64> {
        let idle = self.connections.iter().filter_map(|(id, entry)| match entry.activity {
            Activity::Idle(since) if entry.closing.is_none() => Some((since, *id)),
            _ => None,
        });
        idle.min().map(|(_, id)| id)
    }

    fn close_overdue(&mut self, limits: &ConnectionLimits, now: Instant) {
        let overdue = |since: Instant, limit| now.duration_since(since) >= limit;
        let overdue: Vec<(u64, ConnectionClose)> = self
            .connections
            .iter()
            .filter_map(|(id, entry)| match entry.activity {
                Activity::Unused if overdue(entry.opened, limits.idle) => Some((*id, ConnectionClose::Idle)),
                Activity::Idle(since) if overdue(since, limits.idle) => Some((*id, ConnectionClose::Idle)),
                Activity::Responding(since) if overdue(since, limits.response) => {
                    Some((*id, ConnectionClose::UnreadResponse))
                }
                _ => None,
            })
            .collect();
        for (id, reason) in overdue {
            self.close(id, reason);
        }
        let mut taken = self.connections.values().filter(|entry| entry.closing.is_none()).count();
        let latest = now.checked_sub(limits.unused);
        while latest.is_some() && taken.saturating_mul(4) >= limits.connections.saturating_mul(3) {
            let Some(id) = self.next_unused(latest) else { break };
            self.close(id, ConnectionClose::Unused);
            taken -= 1;
        }
    }

    /// Requests that the task of a connection closes it.
    fn close(&mut self, id: u64, reason: ConnectionClose) {
        let Some(entry) = self.connections.get_mut(&id) else { return };
        entry.closing = Some(reason);
        entry.close.notify_one();
        let (peer, opened) = (entry.peer, entry.opened);
        self.remove_unused(peer, opened, id);
    }

    fn remove_unused(&mut self, peer: IpAddr, opened: Instant, id: u64) {
        let Some(unused) = self.unused.get_mut(&peer) else { return };
        unused.remove(&(opened, id));
        if unused.is_empty() {
            self.unused.remove(&peer);
        }
    }
}

impl OpenConnection {
    /// Waits until this connection is chosen to be closed. After that, poll its stream once more, and call
    /// [`OpenConnection::reason_to_end`].
    pub(crate) async fn close_requested(&self) {
        self.close.notified().await;
    }

    /// Why the connection must end at once; `None` if it must end after the pending request, or not at all.
    pub(crate) fn reason_to_end(&self) -> Option<ConnectionClose> {
        let table = self.all.lock();
        let entry = table.connections.get(&self.id)?;
        entry.closing.filter(|reason| !entry.activity.is_under_way() || *reason == ConnectionClose::UnreadResponse)
    }

    /// The head of a request was read.
    pub(crate) fn begin_request(&self) {
        // It may be set from an earlier response that its client has not read.
        self.response_complete.store(false, Ordering::Relaxed);
        let mut table = self.all.lock();
        let Some(entry) = table.connections.get_mut(&self.id) else { return };
        let (before, peer, opened) = (entry.activity, entry.peer, entry.opened);
        entry.activity = Activity::Handling;
        if entry.closing.is_some() {
            self.all.changed.notify_one();
        } else if before == Activity::Unused {
            table.remove_unused(peer, opened, self.id);
        }
    }

    /// The response exists and will be written. Returns whether it must be the last one of the connection.
    pub(crate) fn begin_response(&self, now: Instant) -> bool {
        let mut table = self.all.lock();
        let Some(entry) = table.connections.get_mut(&self.id) else { return true };
        entry.activity = Activity::Responding(now);
        entry.closing.is_some() || now.duration_since(entry.opened) >= self.all.limits.age
    }

    /// The whole response has been handed over; the request ends when it has reached the socket.
    pub(crate) fn complete_response(&self) {
        self.response_complete.store(true, Ordering::Relaxed);
    }

    /// All bytes that were handed over have reached the socket.
    pub(crate) fn flushed(&self, now: Instant) {
        if !self.response_complete.swap(false, Ordering::Relaxed) {
            return;
        }
        let mut table = self.all.lock();
        let full = table.connections.len() >= self.all.limits.connections;
        if let Some(entry) = table.connections.get_mut(&self.id) {
            entry.activity = Activity::Idle(now);
        }
        if full {
            self.all.changed.notify_one();
        }
    }
}

impl Drop for OpenConnection {
    fn drop(&mut self) {
        let mut table = self.all.lock();
        if let Some(entry) = table.connections.remove(&self.id) {
            table.remove_unused(entry.peer, entry.opened, self.id);
        }
        self.all.changed.notify_one();
    }
}

#[cfg(test)]
mod tests {

    #![allow(clippy::unwrap_used, clippy::indexing_slicing, reason = "tests")]

    use std::time::Duration;

    use super::*;

    const OUR_PEER: &str = "192.0.2.1";
    const OTHER_PEER: &str = "2001:db8::1";

    fn limits(connections: usize) -> ConnectionLimits {
        ConnectionLimits { connections, ..ConnectionLimits::default() }
    }

    /// Connections, and a clock that moves only when a test moves it.
    struct Scene {
        all: Arc<OpenConnections>,
        now: Instant,
    }

    impl Scene {
        fn new(limits: ConnectionLimits) -> Self {
            Self { all: OpenConnections::new(limits), now: Instant::now() }
        }

        fn pass(&mut self, seconds: u64) {
            self.now += Duration::from_secs(seconds);
        }

        fn try_open(&self, peer: &str) -> Option<OpenConnection> {
            self.all.try_open(peer.parse().unwrap(), self.now)
        }

        /// Connections of one peer, each a second younger than the one before it.
        fn open(&mut self, peer: &str, number: usize) -> Vec<OpenConnection> {
            let mut next = || {
                self.pass(1);
                self.try_open(peer).unwrap()
            };
            (0..number).map(|_| next()).collect()
        }

        fn complete_request(&self, connection: &OpenConnection) {
            connection.begin_request();
            connection.begin_response(self.now);
            connection.complete_response();
            connection.flushed(self.now);
        }

        fn close_overdue(&self) {
            self.all.close_overdue(self.now);
        }
    }

    /// The indices of the connections that are to end, and why.
    fn ending(connections: &[OpenConnection]) -> Vec<(usize, ConnectionClose)> {
        let reasons = connections.iter().map(OpenConnection::reason_to_end).enumerate();
        reasons.filter_map(|(number, reason)| Some((number, reason?))).collect()
    }

    #[test]
    fn unused_connections_stay_while_a_quarter_of_the_slots_is_free() {
        let mut scene = Scene::new(limits(8));
        let few = scene.open(OUR_PEER, 5);
        scene.pass(60);
        scene.close_overdue();
        assert_eq!(ending(&few), []);
    }

    #[test]
    fn unused_connections_are_closed_after_ten_seconds_until_a_quarter_of_the_slots_is_free() {
        let mut scene = Scene::new(limits(8));
        let mut all = scene.open(OUR_PEER, 2);
        all.extend(scene.open(OTHER_PEER, 5));
        scene.pass(9);
        // The oldest connection of the peer that has more is 13 seconds old, the next ones 12, 11, 10 and 9.
        scene.close_overdue();
        let unused = ConnectionClose::Unused;
        assert_eq!(ending(&all), [(2, unused), (3, unused)]);
        scene.close_overdue();
        assert_eq!(ending(&all).len(), 2, "those that end already count as free");
    }

    #[test]
    fn young_and_used_connections_stay_when_slots_are_short() {
        let mut scene = Scene::new(limits(4));
        let all = scene.open(OUR_PEER, 4);
        let [first, second, ..] = all.as_slice() else { unreachable!() };
        scene.complete_request(first);
        second.begin_request();
        scene.pass(7);
        scene.close_overdue();
        assert_eq!(ending(&all), [], "two are 8 and 7 seconds old");
        scene.pass(100);
        scene.close_overdue();
        assert_eq!(ending(&all), [(2, ConnectionClose::Unused), (3, ConnectionClose::Unused)]);
    }

    #[test]
    fn a_new_client_replaces_the_oldest_unused_one_of_the_peer_that_has_most() {
        let mut scene = Scene::new(limits(6));
        let ours = scene.open(OUR_PEER, 2);
        let others = scene.open(OTHER_PEER, 3);
        let used = scene.open(OTHER_PEER, 1);
        scene.complete_request(&used[0]);
        assert!(scene.try_open(OUR_PEER).is_none());
        assert_eq!((ending(&ours), ending(&others)), (vec![], vec![(0, ConnectionClose::NoSlot)]));
        assert!(scene.try_open(OUR_PEER).is_none());
        assert_eq!(ending(&others).len(), 1, "one slot is enough for one client");

        let mut others = others;
        drop(others.remove(0));
        let _new = scene.try_open(OUR_PEER).unwrap();
        assert!(scene.try_open(OTHER_PEER).is_none());
        assert_eq!(ending(&ours), [(0, ConnectionClose::NoSlot)], "now we have most");
        assert_eq!((ending(&others), ending(&used)), (vec![], vec![]));
    }

    #[test]
    fn of_peers_with_as_many_unused_ones_the_oldest_goes() {
        let mut scene = Scene::new(limits(64));
        let peers: Vec<String> = (1..=64).map(|host| format!("198.51.100.{host}")).collect();
        let all: Vec<_> = peers.iter().flat_map(|peer| scene.open(peer, 1)).collect();
        assert!(scene.try_open(OUR_PEER).is_none());
        assert_eq!(ending(&all), [(0, ConnectionClose::NoSlot)]);
    }

    #[test]
    fn one_address_is_one_peer_in_both_forms() {
        let mut scene = Scene::new(limits(3));
        let other = scene.open(OTHER_PEER, 1);
        let mut ours = scene.open("192.0.2.1", 1);
        ours.extend(scene.open("::ffff:192.0.2.1", 1));
        assert!(scene.try_open(OTHER_PEER).is_none());
        assert_eq!((ending(&other), ending(&ours)), (vec![], vec![(0, ConnectionClose::NoSlot)]));
    }

    #[test]
    fn without_unused_ones_the_longest_idle_one_goes() {
        let mut scene = Scene::new(limits(3));
        let all = scene.open(OUR_PEER, 3);
        for number in [2, 0, 1] {
            scene.pass(1);
            scene.complete_request(&all[number]);
        }
        assert!(scene.try_open(OTHER_PEER).is_none());
        assert_eq!(ending(&all), [(2, ConnectionClose::NoSlot)]);
    }

    #[test]
    fn a_connection_with_a_request_under_way_is_never_chosen() {
        let mut scene = Scene::new(limits(4));
        let all = scene.open(OUR_PEER, 4);
        let [first, again, responding, unflushed] = all.as_slice() else { unreachable!() };
        first.begin_request();
        scene.complete_request(again);
        again.begin_request();
        responding.begin_request();
        responding.begin_response(scene.now);
        unflushed.begin_request();
        unflushed.begin_response(scene.now);
        unflushed.complete_response();
        for seconds in [0, 29] {
            scene.pass(seconds);
            scene.close_overdue();
            assert!(scene.try_open(OTHER_PEER).is_none());
            assert_eq!(ending(&all), []);
        }
        unflushed.flushed(scene.now);
        assert!(scene.try_open(OTHER_PEER).is_none());
        assert_eq!(ending(&all), [(3, ConnectionClose::NoSlot)]);
    }

    #[test]
    fn a_request_on_a_chosen_connection_is_answered_and_another_one_is_chosen() {
        let mut scene = Scene::new(limits(2));
        let all = scene.open(OUR_PEER, 2);
        assert!(scene.try_open(OTHER_PEER).is_none());
        assert_eq!(ending(&all), [(0, ConnectionClose::NoSlot)]);
        all[0].begin_request();
        assert_eq!(ending(&all), [], "the request is under way");
        assert!(scene.try_open(OTHER_PEER).is_none());
        assert_eq!(ending(&all), [(1, ConnectionClose::NoSlot)]);
        assert!(all[0].begin_response(scene.now), "it is the last response");
        all[0].complete_response();
        all[0].flushed(scene.now);
        assert_eq!(ending(&all).len(), 2);
    }

    #[test]
    fn the_second_of_two_requests_in_a_row_is_under_way_when_the_first_reaches_the_socket() {
        let mut scene = Scene::new(limits(1));
        let all = scene.open(OUR_PEER, 1);
        all[0].begin_request();
        all[0].begin_response(scene.now);
        all[0].complete_response();
        all[0].begin_request();
        all[0].flushed(scene.now);
        assert!(scene.try_open(OTHER_PEER).is_none());
        assert_eq!(ending(&all), []);
    }

    #[test]
    fn silence_and_unread_responses_end() {
        let mut scene = Scene::new(limits(64));
        let all = scene.open(OUR_PEER, 4);
        let [_silent, idle, unread, handling] = all.as_slice() else { unreachable!() };
        scene.complete_request(idle);
        for under_way in [unread, handling] {
            under_way.begin_request();
        }
        unread.begin_response(scene.now);
        scene.pass(29);
        scene.close_overdue();
        assert_eq!(ending(&all), []);
        scene.pass(1);
        scene.close_overdue();
        assert_eq!(ending(&all), [(2, ConnectionClose::UnreadResponse)]);
        scene.pass(90);
        scene.close_overdue();
        let expected = [(0, ConnectionClose::Idle), (1, ConnectionClose::Idle), (2, ConnectionClose::UnreadResponse)];
        assert_eq!(ending(&all), expected);
    }

    #[test]
    fn the_age_of_a_connection_ends_it_with_a_response() {
        let mut scene = Scene::new(limits(1));
        let all = scene.open(OUR_PEER, 1);
        scene.pass(299);
        all[0].begin_request();
        assert!(!all[0].begin_response(scene.now));
        scene.pass(1);
        all[0].begin_request();
        assert!(all[0].begin_response(scene.now));
    }

    #[test]
    fn what_ended_leaves_nothing_behind() {
        let mut scene = Scene::new(limits(2));
        for _ in 0..3 {
            let all = scene.open(OUR_PEER, 2);
            scene.complete_request(&all[0]);
            assert!(scene.try_open(OTHER_PEER).is_none());
        }
        let table = scene.all.lock();
        assert!(table.connections.is_empty() && table.unused.is_empty(), "{table:?}");
    }

    #[tokio::test(start_paused = true)]
    async fn a_client_waits_until_a_request_ends() {
        let mut scene = Scene::new(limits(1));
        let first = scene.open(OUR_PEER, 1).remove(0);
        first.begin_request();
        let open = scene.all.open(OTHER_PEER.parse().unwrap());
        let mut open = std::pin::pin!(open);
        // The clock is paused: this time passes at once, when nothing else can happen.
        assert!(tokio::time::timeout(Duration::from_secs(1), &mut open).await.is_err());
        first.begin_response(scene.now);
        first.complete_response();
        first.flushed(scene.now);
        let served = async {
            first.close_requested().await;
            assert_eq!(first.reason_to_end(), Some(ConnectionClose::NoSlot));
            drop(first);
        };
        let (second, ()) = tokio::join!(open, served);
        drop(second);
        scene.all.none_left().await;
    }
}
