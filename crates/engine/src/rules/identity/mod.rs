//! 4xx: user names, group managed service accounts, HostProcess containers.

pub mod check;
pub mod gmsa;
pub mod host_process;
pub mod non_root;
pub mod rules;
pub mod security_context;
pub mod user_name;
