//! Everything that is read from the API server: lists, watches, single objects, and what it returns after a write.
//!
//! The bodies of responses are split into objects as they arrive ([`scanner`], [`list_scanner`]), so that memory depends
//! on one object, which has a limit. An object is read into a type that names the members which its reader uses; all
//! others are skipped as text. An object that cannot be read is a value ([`Unreadable`]): it fails no list and no watch,
//! and changes nothing for other objects. A test of the architecture keeps other modules from kube's typed lists and
//! watches.

mod cluster_reader;
mod json_text;
mod kind_api;
mod kinds;
mod list_scanner;
mod object;
mod response;
mod scanner;
mod watch;

pub(crate) use cluster_reader::{Absence, ClusterReader, ListQuery, UnreadObjects};
pub(crate) use json_text::JsonText;
pub(crate) use kind_api::KindApi;
pub(crate) use kinds::{
    CLAIMS, CONFIG_MAPS, DAEMON_SETS, DEPLOYMENTS, EVENTS, JOBS, Kind, LEASES, MUTATING_CONFIGURATIONS, NAMESPACES,
    NODES, POD_TEMPLATES, PODS, PROVISIONERS, REPLICA_SETS, RUNTIME_CLASSES, SECRETS, SELF_SUBJECT_ACCESS_REVIEWS,
    SELF_SUBJECT_REVIEWS, STATEFUL_SETS, SURVEY, VALIDATING_CONFIGURATIONS, VOLUMES, WORKLOADS, WRITTEN_EVENTS,
    describe,
};
pub(crate) use object::{Head, Item, Unreadable};
pub(crate) use watch::{Changes, Event, Selection, changes, read_version, streams_lists, wait_for_version};

#[cfg(test)]
mod scanner_tests;
#[cfg(test)]
mod tests;
