//! The memory that the review of a body can take, computed before the body is parsed.

use serde_json::Value;

use crate::webhook::envelope::{AdmissionRequest, ReadingLimits, STEPS, TreeSize, estimate};

/// Up to this size, in bytes, the estimate is enough. A pod of 4 KB is estimated at 65 KB, of which it takes half.
const ESTIMATED: usize = 1 << 20;
/// The memory of a finding, in bytes: 192, its place as a pointer and as a path, and the lists of findings in outcomes
/// and responses. An item of a list has at least one finding, even if it is empty (a container without a limit).
const FINDING: usize = 400;
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
    /// The memory for the review of this body, of which `all` is available. If the review of all that it contains takes
    /// more, the objects are read under the widest limits with which it does not, if there are any. Fails if the body
    /// cannot be parsed.
    pub fn of(body: &[u8], all: usize) -> anyhow::Result<Self> {
        let estimate = estimate(body);
        if estimate.bytes <= ESTIMATED {
            return Ok(Self { bytes: needed(estimate, body), limits: None });
        }
        let sizes = AdmissionRequest::<TreeSize>::parse(body)?;
        let mut memory = Self { bytes: needed(sizes.object.and(sizes.old_object), body), limits: None };
        for limits in STEPS {
            if memory.bytes <= all {
                break;
            }
            let sizes = AdmissionRequest::<TreeSize>::parse_within(body, limits)?;
            memory = Self { bytes: needed(sizes.object.and(sizes.old_object), body), limits: Some(limits) };
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

fn needed(size: TreeSize, body: &[u8]) -> usize {
    // Findings, patch and response take no more than the trees, unless these consist of small items.
    let review = size.bytes.max(size.items.saturating_mul(FINDING));
    // Names in the request are repeated in the response, and are at most as long as the body.
    let texts = (size.longest_text * ESCAPED).saturating_add(body.len());
    size.bytes.saturating_add(review).saturating_add(texts)
}
