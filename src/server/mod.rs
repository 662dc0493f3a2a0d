//! The HTTP server of webhook and controller: accept loop, TLS, limits of connections and bodies, and the admin port.
//!
//! | module | contains |
//! |---|---|
//! | [`accept`] | the accept loop |
//! | [`open_connections`] | the open connections, and which of them is closed when slots run short |
//! | [`connection`] | one connection, from the TLS handshake to the end |
//! | [`response_end`] | when a response has reached the socket |
//! | [`connection_limits`] | the limits of connections |
//! | [`tls`] | the certificate, replaced without dropping a connection |
//! | `body` | request bodies, read with limits of size, time and memory |
//! | `metrics` | counts of connections and certificates |
//! | `memory_pool` | the memory that requests may take together |
//! | `body_limits` | the limits of size and time |
//! | `deadline` | the time that a request has |
//! | `rejected_request` | a request that gets no review |
//! | [`admin_port`] | the routes that both admin ports have |
//! | `admin_thread` | the thread that serves the admin port |
//! | `arguments` | values of flags that both commands have |

mod accept;
pub(crate) mod admin_port;
mod admin_thread;
mod arguments;
pub(crate) mod body;
mod body_limits;
mod connection;
mod connection_limits;
mod deadline;
mod memory_pool;
mod metrics;
mod open_connections;
mod rejected_request;
mod response_end;
pub mod tls;

pub use accept::serve;
pub(crate) use accept::{listen, run_to_end};
pub use admin_port::LogLevelChanges;
pub(crate) use admin_thread::AdminThread;
pub(crate) use arguments::{positive_seconds, seconds};
pub use body::ReceivedBody;
pub use body_limits::BodyLimits;
pub use connection_limits::ConnectionLimits;
pub use deadline::RequestDeadline;
pub use memory_pool::{MemoryLimits, MemoryPool, Reservation};
pub(crate) use memory_pool::{RequestClass, Unreserved};
pub use metrics::{ConnectionClose, ReloadOutcome, ServerMetrics};
pub use rejected_request::{BadRequest, RejectedRequest};
