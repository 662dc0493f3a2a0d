//! Windows user names by the rules of the API server: `validateWindowsSecurityContextOptions`, with its regular
//! expressions `ctrlRegex`, `validNetBiosRegex`, `validWindowsUserDomainDNSRegex`, `invalidUserNameCharsRegex` and
//! `invalidUserNameDotsSpacesRegex`, and its constants.

use std::fmt;

use crate::model::yaml_escapes::written;
use crate::place::WorkloadContext;
use crate::rules::finding::{Finding, RejectedBy};
use crate::rules::identity::rules::RUN_AS_USER_NAME;
use crate::rules::identity::security_context::SecurityContext;

/// `maxRunAsUserNameDomainLength`, in bytes; the domain must be shorter.
const DOMAIN_LIMIT: usize = 256;

/// `maxRunAsUserNameUserLength`, in bytes.
const USER_LIMIT: usize = 104;

/// `validNetBiosRegex`: in characters.
const NET_BIOS_LIMIT: usize = 15;

/// A label of a DNS name, in bytes.
const DNS_LABEL_LIMIT: usize = 63;

/// Characters that a `NetBIOS` name cannot contain.
const NOT_IN_NET_BIOS: &str = r#"\/:*?"<>|"#;

/// Characters that a user cannot contain.
const NOT_IN_USER: &str = r#""/\:;|=,+*?<>@[]"#;

/// One rule of the syntax that a name breaks.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) enum UserNameFault {
    /// It is empty.
    Empty,
    /// It contains a line break, a tab or another control character.
    ControlCharacter,
    /// It has more than one backslash.
    Backslashes,
    /// It begins with a backslash.
    NoDomain,
    /// The domain has that many bytes.
    LongDomain(usize),
    /// The domain is neither a `NetBIOS` nor a DNS name.
    Domain,
    /// It ends with a backslash.
    NoUser,
    /// The user has that many bytes.
    LongUser(usize),
    /// The user contains only dots and spaces.
    DotsAndSpaces,
    /// The user contains these characters.
    Characters(String),
}

impl fmt::Display for UserNameFault {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Empty => f.write_str("a user name cannot be empty"),
            Self::ControlCharacter => f.write_str("a user name has no control characters, such as line breaks"),
            Self::Backslashes => f.write_str("a user name has one backslash at most, after the domain"),
            Self::NoDomain => f.write_str("there is no domain before the backslash"),
            Self::LongDomain(bytes) => {
                write!(f, "the domain has {bytes} bytes and may have {}", DOMAIN_LIMIT - 1)
            }
            Self::Domain => f.write_str("the domain is neither a NetBIOS nor a DNS name"),
            Self::NoUser => f.write_str("there is no user after the backslash"),
            Self::LongUser(bytes) => write!(f, "the user has {bytes} bytes and may have {USER_LIMIT}"),
            Self::DotsAndSpaces => f.write_str("the user has only dots and spaces"),
            Self::Characters(characters) => write!(f, "a user cannot have {characters}"),
        }
    }
}

/// The finding about the user name of one `securityContext`: one finding, however many rules of the syntax it breaks.
pub(crate) fn check(place: SecurityContext<'_>, cx: &WorkloadContext<'_>, out: &mut Vec<Finding>) {
    let Some(name) = place.text("runAsUserName") else { return };
    let broken = faults(name);
    if broken.is_empty() {
        return;
    }
    let message: Vec<String> = broken.iter().map(ToString::to_string).collect();
    let pointer = place.option_at(cx, "runAsUserName");
    let mut found = cx.finding(&RUN_AS_USER_NAME, pointer, message.join(", and "));
    found.rejected_by = RejectedBy::ApiServer;
    if let Some(meant) = meant(name) {
        let quoted = broken == [UserNameFault::ControlCharacter] && meant != name.trim();
        let so =
            if quoted { r" without double quotes: in them YAML reads \n as a line break, \t as a tab" } else { "" };
        found.help = format!("write {meant}{so}").into();
    }
    out.push(found);
}

/// What is wrong with a name, in the API server's order; empty if it is valid.
pub(crate) fn faults(name: &str) -> Vec<UserNameFault> {
    if name.is_empty() {
        return vec![UserNameFault::Empty];
    }
    // Go's [[:cntrl:]] is ASCII.
    if name.contains(|c: char| c.is_ascii_control()) {
        return vec![UserNameFault::ControlCharacter];
    }
    let (domain, user) = match name.split_once('\\') {
        Some((_, rest)) if rest.contains('\\') => return vec![UserNameFault::Backslashes],
        Some((domain, user)) => (Some(domain), user),
        None => (None, name),
    };
    let mut found = Vec::new();
    if let Some(domain) = domain {
        if domain.is_empty() {
            found.push(UserNameFault::NoDomain);
        } else if domain.len() >= DOMAIN_LIMIT {
            found.push(UserNameFault::LongDomain(domain.len()));
        } else if !is_net_bios(domain) && !is_dns(domain) {
            found.push(UserNameFault::Domain);
        }
    }
    if user.is_empty() {
        found.push(UserNameFault::NoUser);
    } else if user.len() > USER_LIMIT {
        found.push(UserNameFault::LongUser(user.len()));
    }
    if !user.is_empty() && user.chars().all(|c| matches!(c, '.' | ' ')) {
        found.push(UserNameFault::DotsAndSpaces);
    }
    let bad: String = NOT_IN_USER.chars().filter(|c| user.contains(*c)).collect();
    if !bad.is_empty() {
        found.push(UserNameFault::Characters(bad));
    }
    found
}

fn is_net_bios(domain: &str) -> bool {
    (1..=NET_BIOS_LIMIT).contains(&domain.chars().count())
        && !domain.starts_with('.')
        && !domain.contains(|c| NOT_IN_NET_BIOS.contains(c))
}

fn is_dns(domain: &str) -> bool {
    let is_label = |label: &str| {
        (1..=DNS_LABEL_LIMIT).contains(&label.len())
            && label.bytes().all(|b| b.is_ascii_alphanumeric() || b == b'-')
            && !label.starts_with('-')
            && !label.ends_with('-')
    };
    domain.split('.').all(is_label)
}

/// The valid name that the author of an invalid one probably intends.
fn meant(name: &str) -> Option<String> {
    let guesses: [fn(&str) -> Option<String>; 6] = [
        // Remove the line break at the end of a YAML block.
        |name| Some(name.trim().to_owned()),
        // In double quotes, YAML parses `CONTOSO\network` as CONTOSO, a line break, and "etwork".
        |name| Some(written(name)),
        // Remove an escape that YAML does not process: 'CONTOSO\\web'.
        |name| Some(name.replace(r"\\", r"\")),
        // Remove the dot, which Windows uses elsewhere for the local machine.
        |name| name.strip_prefix('.').unwrap_or(name).strip_prefix('\\').map(ToOwned::to_owned),
        |name| Some(name.replacen('/', r"\", 1)),
        // Convert a user principal name: web@contoso.com.
        |name| name.split_once('@').map(|(user, domain)| format!(r"{domain}\{user}")),
    ];
    guesses.iter().filter_map(|guess| guess(name)).find(|guess| faults(guess).is_empty())
}

#[cfg(test)]
mod tests {

    #![allow(clippy::unwrap_used, clippy::expect_used, clippy::indexing_slicing, reason = "tests")]

    use proptest::prelude::*;

    use super::*;

    #[test]
    fn limits_are_counted_as_the_server_counts() {
        let dns = |labels: usize| vec!["a".repeat(50); labels].join(".");
        let table = [
            ("a".repeat(104), vec![]),
            ("a".repeat(105), vec![UserNameFault::LongUser(105)]),
            // The limit is in bytes, not characters.
            ("é".repeat(52), vec![]),
            ("é".repeat(53), vec![UserNameFault::LongUser(106)]),
            (format!(r"{}\u", "d".repeat(15)), vec![]),
            (format!(r"{} \u", "d".repeat(15)), vec![UserNameFault::Domain]),
            // The limit is in characters, not bytes.
            (format!(r"{}\u", "é".repeat(15)), vec![]),
            (format!(r"{}\u", "é".repeat(16)), vec![UserNameFault::Domain]),
            (format!(r"{}\u", "d".repeat(63)), vec![]),
            (format!(r"{}\u", "d".repeat(64)), vec![UserNameFault::Domain]),
            (format!(r"{}\u", dns(5)), vec![]),
            (format!(r"{}{}\u", dns(5), ".abc"), vec![UserNameFault::LongDomain(258)]),
            (format!(r"{}\u", &(dns(5) + ".")[..255]), vec![UserNameFault::Domain]),
        ];
        for (name, expected) in table {
            assert_eq!(faults(&name), expected, "{name}");
        }
    }

    #[test]
    fn the_intended_name_is_proposed() {
        let table = [
            ("ContainerUser\n", Some("ContainerUser")),
            ("CONTOSO\network", Some(r"CONTOSO\network")),
            ("CONTOSO\test", Some(r"CONTOSO\test")),
            (r"CONTOSO\\web", Some(r"CONTOSO\web")),
            (r".\web", Some("web")),
            (r"\web", Some("web")),
            ("CONTOSO/web", Some(r"CONTOSO\web")),
            ("web@contoso.com", Some(r"contoso.com\web")),
            ("", None),
            ("...", None),
            ("a:b", None),
        ];
        for (name, expected) in table {
            assert!(!faults(name).is_empty(), "{name}");
            assert_eq!(meant(name).as_deref(), expected, "{name}");
        }
    }

    proptest! {
        #[test]
        fn what_the_patterns_allow_is_taken(
            net_bios in r#"[^\\/:*?"<>|.\x00-\x1f\x7f][^\\/:*?"<>|\x00-\x1f\x7f]{0,14}"#,
            dns in "[a-zA-Z0-9]([a-zA-Z0-9-]{0,61}[a-zA-Z0-9])?(\\.[a-zA-Z0-9]([a-zA-Z0-9-]{0,20}[a-zA-Z0-9])?){0,3}",
            user in r#"[^"/\\:;|=,+*?<>@\[\] .\x00-\x1f\x7f]{1,26}"#,
        ) {
            prop_assert_eq!(faults(&user), []);
            prop_assert_eq!(faults(&format!(r"{net_bios}\{user}")), []);
            prop_assert_eq!(faults(&format!(r"{dns}\{user}")), []);
        }

        #[test]
        fn no_name_panics(name in any::<String>(), text in r"[\\ .@/:a\n]{0,8}") {
            for name in [name, text] {
                let offered = meant(&name);
                prop_assert!(offered.is_none_or(|offered| faults(&offered).is_empty()));
            }
        }
    }
}
