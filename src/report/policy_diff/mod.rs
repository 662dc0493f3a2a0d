//! The report of `mullion policy diff`.

mod document;
mod model;
mod words;
mod write;

pub(crate) use model::{
    ComparedWorkload, DifferenceCategory, KeyDifference, KeyValue, NodeDifference, SettingDifference,
    WorkloadDifference,
};
pub(crate) use write::{DiffReport, write_settings};
