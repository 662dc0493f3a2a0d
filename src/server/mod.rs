//! The HTTP server of webhook and controller: accept loop, TLS, limits of connections and bodies, and the admin port.
//!
//! | module | contains |
//! |---|---|
//! | [`accept`] | the accept loop, and the limits of connections |
//! | [`tls`] | the certificate, replaced without dropping a connection |
//! | [`body`] | request bodies, read with a limit of size and time |
//! | [`admin`] | the routes that both admin ports have |
//! | `arguments` | values of flags that both commands have |

pub mod accept;
pub mod admin;
pub(crate) mod arguments;
pub mod body;
pub mod tls;
