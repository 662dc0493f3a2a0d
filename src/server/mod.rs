//! The HTTP server of webhook and controller: accept loop, TLS, limits of connections and bodies, and the admin port.
//!
//! | module | contains |
//! |---|---|
//! | [`accept`] | the accept loop, and the limits of connections |
//! | [`tls`] | the certificate, replaced without dropping a connection |
//! | [`body`] | request bodies, read with a limit of size and time |
//! | [`admin_port`] | the routes that both admin ports have |
//! | `arguments` | values of flags that both commands have |

mod accept;
pub(crate) mod admin_port;
mod arguments;
pub(crate) mod body;
pub mod tls;

pub use accept::{ConnectionLimits, serve};
pub(crate) use accept::{listen, run_to_end};
pub(crate) use arguments::{positive_seconds, seconds};
pub use body::BodyLimits;
pub(crate) use body::{BodyPool, UnreadBody};
