//! The memory that the review of a body can take, computed before the body is parsed.

use crate::webhook::envelope::{AdmissionRequest, TreeSize, estimate};

/// Up to this size, in bytes, the estimate is enough. A pod of 4 KB is estimated at 65 KB, of which it takes half.
const ESTIMATED: usize = 1 << 20;
/// The memory of a finding, in bytes: 192, its place as a pointer and as a path, and the lists of findings in outcomes
/// and responses. An item of a list has at least one finding, even if it is empty (a container without a limit).
const FINDING: usize = 400;
/// The memory of texts beside the tree, in lengths of the longest one: the parser's copy of a text with escapes, which
/// grows by doubling.
const ESCAPED: usize = 3;

/// The maximum number of bytes that the review of this body takes, from parsing to the response. Fails if the body
/// cannot be parsed.
pub fn needed(body: &[u8]) -> anyhow::Result<usize> {
    let estimate = estimate(body);
    let size = if estimate.bytes <= ESTIMATED {
        estimate
    } else {
        let sizes = AdmissionRequest::<TreeSize>::parse(body)?;
        sizes.object.and(sizes.old_object)
    };
    // Findings, patch and response take no more than the trees, unless these consist of small items.
    let review = size.bytes.max(size.items.saturating_mul(FINDING));
    // Names in the request are repeated in the response, and are at most as long as the body.
    let texts = (size.longest_text * ESCAPED).saturating_add(body.len());
    Ok(size.bytes.saturating_add(review).saturating_add(texts))
}
