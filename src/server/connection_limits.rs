//! Limits of connections.

use std::time::Duration;

/// Limits of one connection, and of all together.
#[derive(Debug, Clone)]
pub struct ConnectionLimits {
    /// The maximum number of open connections, each of which takes a slot. Below 1024, the usual soft limit of
    /// descriptors. There is no limit for each peer, because behind NAT or konnectivity all API servers have one
    /// address.
    pub connections: usize,
    /// The time limit of a TLS handshake.
    pub handshake: Duration,
    /// How long a connection may wait for the head of a request. It is longer than the 90 s after which Go drops an
    /// idle connection. If it were shorter, the API server would sometimes send on a connection that was closed just
    /// before, and that pod would be admitted without a review.
    pub idle: Duration,
    /// How long a connection may be open without a completed request when few slots are free. Go opens spare
    /// connections that carry a request later or never; one that is still unused after this time is most likely of
    /// another client.
    pub unused: Duration,
    /// How long a client may take to read a response: the longest time that an API server waits for a whole call.
    pub response: Duration,
    /// The age from which a connection is closed with its next response. A client that reconnects may reach another replica,
    /// so new replicas get their share of the calls within this time. A TLS handshake takes a millisecond of processor time.
    pub age: Duration,
    /// How long pending requests may take after the shutdown began.
    pub drain: Duration,
    /// The pause after `accept` failed because descriptors or memory ran out.
    pub accept_backoff: Duration,
}

impl Default for ConnectionLimits {
    fn default() -> Self {
        Self {
            connections: 768,
            handshake: Duration::from_secs(5),
            idle: Duration::from_secs(120),
            unused: Duration::from_secs(10),
            response: Duration::from_secs(30),
            age: Duration::from_secs(300),
            drain: Duration::from_secs(20),
            accept_backoff: Duration::from_millis(100),
        }
    }
}

impl ConnectionLimits {
    /// The limits of an admin port.
    pub(crate) fn of_admin() -> Self {
        Self { connections: 64, drain: Duration::from_secs(1), ..Self::default() }
    }
}
