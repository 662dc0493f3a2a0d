//! Responses about objects with lists that are too long to be reviewed to their end.
//!
//! What was read is reviewed as always: it denies, warns and is placed. The rest adds no findings. The response names the
//! lists, and contains no patch if the patch would write one of them.

use mullion_engine::admission::ReviewResponse;
use mullion_engine::model::text::list_within;

use crate::webhook::envelope::CutMembers;

/// Audit annotation: the value lists the members that were not reviewed to their end.
const NOT_REVIEWED: &str = "not-reviewed";
/// The longest list of members in a response, in bytes.
const LONGEST_LIST: usize = 200;

/// Adapts the response to a review of an object in which these members were not read to their end.
pub(crate) fn adapt(response: &mut ReviewResponse, cut: &CutMembers) {
    let writes_them = !response.patch.iter().all(|operation| cut.permit(operation));
    if writes_them {
        response.patch.clear();
    }
    let unread = cut.unread();
    if unread.is_empty() && !writes_them {
        return;
    }
    let members = if unread.is_empty() { cut.shortened() } else { unread };
    let members = list_within(members, members.len(), ", ", LONGEST_LIST);
    let changed = if writes_them { "; Mullion changed nothing" } else { "" };
    response.warnings.push(format!(
        "mullion: this object is too large to be reviewed to its end; only the beginning of these lists was reviewed: \
         {members}{changed}"
    ));
    response.audit.insert(NOT_REVIEWED, members);
}
