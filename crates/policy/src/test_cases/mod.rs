//! Test files: the results that admins expect of their policies. `mullion policy test` runs them.

mod test_file;
mod types;
mod validate;

pub use test_file::{PolicyTest, TestFile};
pub use types::{
    Expectations, ExpectedDenial, ExpectedFinding, NamespaceSpec, NodeFixture, ShortForm, SnapshotSpec, TestCase,
    TestSpec,
};
