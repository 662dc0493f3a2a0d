//! The memory that the review of a body can take, known before the body is parsed.

use crate::webhook::envelope::{AdmissionRequest, TreeSize, estimate};

/// Up to this size, in bytes, the estimate is enough. A pod of 4 KB is estimated at 65 KB, of which it takes half.
const ESTIMATED: usize = 1 << 20;
/// What a review takes at most, in sizes of the trees: the trees themselves, and findings, patch and response.
const REVIEW: usize = 2;
/// What texts take beside the tree, in lengths of the longest one: the parser's copy of a text with escapes, which grows by
/// doubling.
const ESCAPED: usize = 3;

/// The bytes that the review of this body takes at most, from parsing to the response. Fails if the body cannot be parsed.
pub(crate) fn needed(body: &[u8]) -> anyhow::Result<usize> {
    let estimate = estimate(body);
    let size = if estimate.bytes <= ESTIMATED {
        estimate
    } else {
        let sizes = AdmissionRequest::<TreeSize>::parse(body)?;
        sizes.object.and(sizes.old_object)
    };
    // Names in the request are repeated in the response, and are at most as long as the body.
    Ok(size.bytes.saturating_mul(REVIEW).saturating_add(size.longest_text * ESCAPED).saturating_add(body.len()))
}
