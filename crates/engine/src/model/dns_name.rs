//! Names of Kubernetes objects that are DNS names (RFC 1123): labels, and subdomains, which consist of labels.

/// The longest label, in bytes (`DNS1123LabelMaxLength`, apimachinery pkg/util/validation/validation.go).
pub const DNS_LABEL_LIMIT: usize = 63;
/// The longest subdomain, in bytes (`DNS1123SubdomainMaxLength`, same file).
pub const DNS_SUBDOMAIN_LIMIT: usize = 253;

/// `IsDNS1123Label` of the same file.
pub fn is_dns_label(text: &str) -> bool {
    text.len() <= DNS_LABEL_LIMIT && is_part(text)
}

/// `IsDNS1123Subdomain` of the same file. Only the whole name has a limit, not each part.
pub fn is_dns_subdomain(text: &str) -> bool {
    text.len() <= DNS_SUBDOMAIN_LIMIT && text.split('.').all(is_part)
}

/// Whether these are lowercase letters, digits, and dashes between them.
fn is_part(text: &str) -> bool {
    !text.is_empty()
        && text.bytes().all(|byte| byte.is_ascii_lowercase() || byte.is_ascii_digit() || byte == b'-')
        && !text.starts_with('-')
        && !text.ends_with('-')
}
