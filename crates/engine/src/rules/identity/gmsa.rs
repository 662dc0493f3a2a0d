//! Group managed service accounts.

use crate::model::dns_name::{DNS_SUBDOMAIN_LIMIT, is_dns_subdomain};
use crate::place::WorkloadContext;
use crate::rules::finding::{Finding, RejectedBy};
use crate::rules::identity::rules::{GMSA_CREDENTIAL_SPEC, GMSA_WITHOUT_NAME};
use crate::rules::identity::security_context::SecurityContext;

/// `maxGMSACredentialSpecLength`, in bytes.
const CONTENTS_LIMIT: usize = 64 * 1024;

/// The findings about the credential spec of one `securityContext`. They never quote its contents, which contain
/// account names.
pub(crate) fn check(place: SecurityContext<'_>, windows: bool, cx: &WorkloadContext<'_>, out: &mut Vec<Finding>) {
    let mut reject = |option: &str, message: String, help: Option<String>| {
        let mut found = cx.finding(&GMSA_CREDENTIAL_SPEC, place.option_at(cx, option), message);
        found.rejected_by = RejectedBy::ApiServer;
        if let Some(help) = help {
            found.help = help.into();
        }
        out.push(found);
    };
    let name = place.text("gmsaCredentialSpecName");
    if let Some(name) = name.filter(|name| !is_dns_subdomain(name)) {
        let lower = name.to_ascii_lowercase();
        let message = match name.len() {
            0 => "the name is empty".to_owned(),
            1..=DNS_SUBDOMAIN_LIMIT => {
                "the name of a GMSACredentialSpec has only lower case letters, digits, - and ., and a letter \
                               or digit at both ends"
                    .to_owned()
            }
            bytes => format!("the name has {bytes} bytes, and at most {DNS_SUBDOMAIN_LIMIT} are allowed"),
        };
        reject("gmsaCredentialSpecName", message, is_dns_subdomain(&lower).then(|| format!("write {lower}")));
    }
    let Some(contents) = place.text("gmsaCredentialSpec") else { return };
    let leave_out = || {
        Some(
            "remove gmsaCredentialSpec, and write the name of a GMSACredentialSpec in gmsaCredentialSpecName"
                .to_owned(),
        )
    };
    if contents.is_empty() {
        reject("gmsaCredentialSpec", "the credential spec is empty".to_owned(), leave_out());
    } else if contents.len() > CONTENTS_LIMIT {
        let message =
            format!("the credential spec has {} bytes, and at most {CONTENTS_LIMIT} are allowed", contents.len());
        reject("gmsaCredentialSpec", message, leave_out());
    } else if windows && name.is_none() {
        // kubernetes-sigs/windows-gmsa, admission-webhook/webhook.go, validateCreateRequest: it checks the pod and each
        // container separately, as does DetermineEffectiveSecurityContext of the kubelet.
        out.push(cx.finding(&GMSA_WITHOUT_NAME, place.option_at(cx, "gmsaCredentialSpec"), GMSA_WITHOUT_NAME.why));
    }
}
