//! The memory that the review of a body can take, computed before the body is parsed.
//!
//! Its inputs are the object, the old object, the facts about the namespace, and the taints that become tolerations of the
//! patch. The facts of a namespace are not copied: their share are the findings that refer to them.

use mullion_engine::model::cluster::{ClusterSnapshot, SELECTOR_PAIRS};
use mullion_engine::place::learned_size;
use serde_json::Value;

use crate::webhook::envelope::{AdmissionRequest, ReadingLimits, STEPS, TreeSize, estimate};

/// Up to this size, in bytes, the estimate is enough. A pod of 4 KB is estimated at 65 KB, of which it takes half.
const ESTIMATED: usize = 1 << 20;
/// The memory of a finding, in bytes: 192, its place as a pointer and as a path, and the lists of findings in outcomes
/// and responses. An item of a list has at least one finding, even if it is empty (a container without a limit).
const FINDING: usize = 400;
/// The most findings that follow from the two node selectors of a namespace, one for each pair that the pod contradicts.
/// An estimate counts the pairs of the pod as items; a map in a tree has none.
const SELECTOR_FINDINGS: usize = 2 * SELECTOR_PAIRS;
/// The memory of texts beside the tree, in lengths of the longest one: the parser's copy of a text with escapes, which
/// grows by doubling.
const ESCAPED: usize = 3;

/// How a body is parsed so that its review fits into memory.
#[derive(Debug, Clone, Copy)]
pub struct ReviewMemory {
    /// The maximum number of bytes that the review takes, from parsing to the response.
    pub bytes: usize,
    /// `None`: its objects are read to their end.
    limits: Option<ReadingLimits>,
}

impl ReviewMemory {
    /// The memory for the review of this body in that cluster, of which `all` is available. If the review of all that it
    /// contains takes more, the objects are read under the widest limits with which it does not, if there are any. Fails
    /// if the body cannot be parsed.
    pub fn of(body: &[u8], all: usize, snapshot: &ClusterSnapshot) -> anyhow::Result<Self> {
        let learned = learned_size(snapshot);
        let estimate = estimate(body);
        if estimate.bytes <= ESTIMATED {
            return Ok(Self { bytes: needed(estimate, estimate.items, learned, body), limits: None });
        }
        let needed = |sizes: &AdmissionRequest<TreeSize>| {
            let size = sizes.object.and(sizes.old_object);
            needed(size, size.items.saturating_add(SELECTOR_FINDINGS), learned, body)
        };
        let mut memory = Self { bytes: needed(&AdmissionRequest::parse(body)?), limits: None };
        for limits in STEPS {
            if memory.bytes <= all {
                break;
            }
            memory = Self { bytes: needed(&AdmissionRequest::parse_within(body, limits)?), limits: Some(limits) };
        }
        Ok(memory)
    }

    /// Parses the body.
    pub fn parse(self, body: &[u8]) -> anyhow::Result<AdmissionRequest<Value>> {
        match self.limits {
            None => AdmissionRequest::parse(body),
            Some(limits) => AdmissionRequest::parse_within(body, limits),
        }
    }
}

/// `findings`: the maximum number of them; `learned`: the size of the tolerations that the patch can add.
fn needed(size: TreeSize, findings: usize, learned: usize, body: &[u8]) -> usize {
    // Findings, patch and response take no more than the trees, unless these consist of small items.
    let review = size.bytes.max(findings.saturating_mul(FINDING));
    // Names in the request are repeated in the response, and are at most as long as the body.
    let texts = (size.longest_text * ESCAPED).saturating_add(body.len());
    [size.bytes, review, texts, learned].into_iter().fold(0, usize::saturating_add)
}
