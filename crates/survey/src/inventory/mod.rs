//! The data that a survey stores about the objects of a cluster, and how it reads them from a dump.
//!
//! [`stream`] reads JSON object by object, [`strip`] keeps only the members that [`kinds`] and [`kept_members`] list, and
//! [`reader`] stores them in a compact form: about 1 KB for a pod. A saved inventory is a dump of stripped objects, so
//! the same code reads it.

mod constraints;
mod disruption;
mod kept_members;
mod kinds;
mod node_pools;
mod reader;
mod records;
mod reduced_texts;
mod status;
mod storage;
mod stream;
mod strip;
mod yaml;

pub(crate) use constraints::{constraints_of, selected_labels};
pub use kinds::{
    BROKEN_INPUTS, KINDS, KindReading, OTHER_LABELS, OTHER_NAMESPACES, POLICIES_IN_FORCE, PROVISIONER_KINDS,
    SurveyKind, plural_of,
};
pub(crate) use kinds::{OTHER_TIMES, REPEATED, STATUSES, is_only_in_dumps};
pub(crate) use node_pools::NodePoolRecord;
pub(crate) use reader::LONGEST_NAME;
pub use reader::{InventoryReader, ReadInput, is_finished_job};
pub use records::{
    BudgetRecord, BudgetStatus, ContainerShape, Inventory, NodeRecord, NodeSize, ObjectKey, PodRecord, PodShape,
    VolumeShape,
};
pub(crate) use records::{OwnerKey, RunningContainer, WorkloadRecord};
pub use reduced_texts::{KEPT_MESSAGE, SERVICE_ACCOUNT, program_names};
pub(crate) use storage::class_of;
pub use stream::{DumpProblem, MAX_OBJECT, MAX_VALUES, read_json};
pub(crate) use strip::strip as stripped;
pub use yaml::read_yaml;
