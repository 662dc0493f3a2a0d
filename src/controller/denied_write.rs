//! Events about writes that the chart's ValidatingAdmissionPolicies deny (`charts/mullion/templates/fence`).
//!
//! Each message of these policies lists what Mullion may write, and the chart value that changes it.

use kube::Error;
use mullion_engine::model::foreign_text::visible;

use crate::controller::event_reasons::WRITE_DENIED;
use crate::controller::events::NewEvent;

/// The text with which the API server's message introduces a policy of the chart (`Dispatch` in apiserver
/// `pkg/admission/plugin/policy/validating/dispatcher.go`).
const POLICY: &str = "ValidatingAdmissionPolicy 'mullion-fence-";
/// The text before the policy's own message.
const DENIED: &str = " denied request: ";

/// The Event about the object if its write failed with this error because a policy of the chart denies it.
pub(crate) fn denied_write(error: &Error) -> Option<NewEvent> {
    let Error::Api(status) = error else { return None };
    let (_, denial) = status.message.split_once(POLICY)?;
    let (_, message) = denial.split_once(DENIED)?;
    let note = format!("The chart's fence denies a write of Mullion to this object: {}", visible(message));
    Some(WRITE_DENIED.event(note))
}

#[cfg(test)]
mod tests {

    #![allow(clippy::unwrap_used, reason = "tests")]

    use serde_json::json;

    use super::*;

    #[test]
    fn only_denials_of_the_chart_are_reported() {
        let event = |message: &str| {
            let status = json!({"status": "Failure", "code": 403, "reason": "Forbidden", "message": message});
            denied_write(&Error::Api(Box::new(serde_json::from_value(status).unwrap())))
        };
        let own = "nodes \"w1\" is forbidden: ValidatingAdmissionPolicy 'mullion-fence-nodes' with binding \
                   'mullion-fence-nodes' denied request: of the taints of a node, Mullion writes only those with the \
                   keys os; add its key to chart value fence.taintKeys";
        let event_of_own = event(own).unwrap();
        assert_eq!(event_of_own.reason, "WriteDenied");
        assert!(event_of_own.note.ends_with("object: of the taints of a node, Mullion writes only those with the keys os; add its key to chart value fence.taintKeys"));
        for other in [
            "",
            "nodes \"w1\" is forbidden: ValidatingAdmissionPolicy 'company' with binding 'b' denied request: no",
            "nodes \"w1\" is forbidden: User \"u\" cannot patch resource \"nodes\" in API group \"\" at the cluster scope",
            "ValidatingAdmissionPolicy 'mullion-fence-nodes'",
        ] {
            assert_eq!(event(other), None, "{other}");
        }
        assert_eq!(denied_write(&Error::LinesCodecMaxLineLengthExceeded), None);
    }
}
