//! `mullion repair`: lists pods that can never start where they are, and evicts those that their owners make again on nodes
//! that fit.
//!
//! [`command`] reads a cluster or a dump, [`volumes`] where the volumes of stuck pods are, and [`report`] prints the list.
//! [`evict`] evicts: one pod of an owner first, whose [`successor`] shows whether the others follow.

mod arguments;
mod command;
mod evict;
mod report;
mod successor;
mod volumes;

pub(crate) use arguments::RepairArgs;
pub(crate) use command::run;
