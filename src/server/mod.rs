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
//! | [`body`] | request bodies, read with a limit of size and time |
//! | [`admin_port`] | the routes that both admin ports have |
//! | `arguments` | values of flags that both commands have |

mod accept;
pub(crate) mod admin_port;
mod arguments;
pub(crate) mod body;
mod connection;
mod connection_limits;
mod open_connections;
mod response_end;
pub mod tls;

pub use accept::serve;
pub(crate) use accept::{listen, run_to_end};
pub(crate) use arguments::{positive_seconds, seconds};
pub use body::BodyLimits;
pub(crate) use body::{BodyPool, UnreadBody};
pub use connection_limits::ConnectionLimits;
