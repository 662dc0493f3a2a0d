//! The input of `survey` and `plan`: a live cluster or dumps of one, policies and tables of facts.

mod arguments;
mod dump_scope;
mod dumps;
mod live;
mod read;
mod saved;

pub use arguments::{InventoryArgs, InventorySource};
pub(crate) use read::read_inventory;
