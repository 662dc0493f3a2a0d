//! Reads objects of a live cluster once, page by page, for the commands that report about it: the table of the kinds,
//! and lists that continue if a permission is missing.

mod kinds;
mod list;

pub(crate) use kinds::{
    CONFIG_MAPS, DEPLOYMENTS, EVENTS, Kind, LEASES, MUTATING_CONFIGURATIONS, NAMESPACES, NODES, PODS, RUNTIME_CLASSES,
    SURVEY, VALIDATING_CONFIGURATIONS, WORKLOADS,
};
pub(crate) use list::{Absence, ClusterReader, ListQuery, Unread};

#[cfg(test)]
mod tests;
