//! 4xx: user names, group managed service accounts, HostProcess containers.

pub(crate) mod check;
mod gmsa;
mod host_process;
mod non_root;
pub(crate) mod rules;
pub(crate) mod security_context;
mod user_name;

pub(crate) use rules::HOST_PROCESS_VOLUME;
