//! Kinds of IP addresses, and which of them a registry may have.
//!
//! | rule | allows |
//! |---|---|
//! | [`AddressRule::Public`] | addresses of the public internet |
//! | [`AddressRule::Listed`] | any, except those that belong to the machine, its link or its cloud |
//! | [`AddressRule::Any`] | any |
//!
//! The kinds are those of IANA's registries of special-purpose addresses (`iana-ipv4-special-registry`,
//! `iana-ipv6-special-registry`), of multicast addresses and of the IPv6 address space, and the addresses at which
//! clouds provide credentials to their machines. An IPv6 address that stands for an IPv4 address has its kind.

use std::fmt;
use std::net::{IpAddr, Ipv4Addr, Ipv6Addr};

use mullion_policy::RegistryPolicy;

use AddressKind::{
    Documentation, Embedded, LinkLocal, Loopback, Metadata, Multicast, Private, Public, Reserved, Shared, ThisHost,
};

/// Which addresses registries, their token services and the targets of their redirects may have.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum AddressRule {
    /// Only public addresses.
    Public,
    /// Any address, except loopback, link-local, multicast and unspecified ones, and those of a cloud's metadata
    /// service.
    Listed,
    /// Any address: for the command line, because its user connects from their own machine.
    Any,
}

/// The purpose of an address.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum AddressKind {
    Public,
    Private,
    Shared,
    Documentation,
    Reserved,
    Loopback,
    LinkLocal,
    Metadata,
    ThisHost,
    Multicast,
    /// The kind of the IPv4 address that begins at this bit.
    Embedded(u32),
}

/// An address that a registry may not have.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[error("{host} has the {kind} address {address}, {}", self.advice())]
pub(crate) struct ForbiddenAddress {
    host: Box<str>,
    address: IpAddr,
    kind: AddressKind,
}

/// Addresses that have the same first bits.
struct Range {
    first: IpAddr,
    bits: u32,
    kind: AddressKind,
}

/// The first range that contains an address decides its kind. If no range contains it, it is a public IPv4 address, or
/// an IPv6 address outside of [`GLOBAL_UNICAST`], which is reserved.
const RANGES: &[Range] = &[
    v4([100, 100, 100, 200], 32, Metadata), // Alibaba Cloud, "View instance metadata"
    v4([168, 63, 129, 16], 32, Metadata), // Azure, "What is IP address 168.63.129.16?": provides goal states and certificates
    v4([0, 0, 0, 0], 8, ThisHost),        // RFC 791, section 3.2; Linux connects to itself at 0.0.0.0
    v4([10, 0, 0, 0], 8, Private),        // RFC 1918
    v4([100, 64, 0, 0], 10, Shared),      // RFC 6598
    v4([127, 0, 0, 0], 8, Loopback),      // RFC 1122, section 3.2.1.3
    v4([169, 254, 0, 0], 16, LinkLocal),  // RFC 3927; 169.254.169.254 is the metadata service of most clouds
    v4([172, 16, 0, 0], 12, Private),     // RFC 1918
    v4([192, 0, 0, 0], 24, Reserved),     // RFC 6890, section 2.1
    v4([192, 0, 2, 0], 24, Documentation), // RFC 5737
    v4([192, 88, 99, 0], 24, Reserved),   // RFC 7526
    v4([192, 168, 0, 0], 16, Private),    // RFC 1918
    v4([198, 18, 0, 0], 15, Reserved),    // RFC 2544: benchmarks
    v4([198, 51, 100, 0], 24, Documentation), // RFC 5737
    v4([203, 0, 113, 0], 24, Documentation), // RFC 5737
    v4([224, 0, 0, 0], 4, Multicast),     // RFC 5771
    v4([240, 0, 0, 0], 4, Reserved),      // RFC 1112, section 4; RFC 919: 255.255.255.255
    v6([0xfd00, 0xec2, 0, 0, 0, 0, 0, 0], 32, Metadata), // Amazon EC2, "Use the Instance Metadata Service": fd00:ec2::254
    v6([0xfd20, 0xce, 0, 0, 0, 0, 0, 0x254], 128, Metadata), // Google Compute Engine, "VM metadata"
    v6([0, 0, 0, 0, 0, 0, 0, 0], 128, ThisHost),         // RFC 4291, section 2.5.2
    v6([0, 0, 0, 0, 0, 0, 0, 1], 128, Loopback),         // RFC 4291, section 2.5.3
    v6([0, 0, 0, 0, 0, 0, 0, 0], 96, Embedded(96)),      // RFC 4291, section 2.5.5.1: IPv4-compatible, deprecated
    v6([0, 0, 0, 0, 0, 0xffff, 0, 0], 96, Embedded(96)), // RFC 4291, section 2.5.5.2: IPv4-mapped
    v6([0, 0, 0, 0, 0xffff, 0, 0, 0], 96, Embedded(96)), // RFC 2765, section 2.1: IPv4-translated
    v6([0x64, 0xff9b, 0, 0, 0, 0, 0, 0], 96, Embedded(96)), // RFC 6052: NAT64
    v6([0x64, 0xff9b, 1, 0, 0, 0, 0, 0], 48, Private),   // RFC 8215: NAT64 of one network
    v6([0x2001, 0xdb8, 0, 0, 0, 0, 0, 0], 32, Documentation), // RFC 3849
    v6([0x2001, 0, 0, 0, 0, 0, 0, 0], 23, Reserved), // RFC 2928; Teredo (RFC 4380) and benchmarks (RFC 5180) are in it
    v6([0x2002, 0, 0, 0, 0, 0, 0, 0], 16, Embedded(16)), // RFC 3056: 6to4
    v6([0x3fff, 0, 0, 0, 0, 0, 0, 0], 20, Documentation), // RFC 9637
    v6([0xfc00, 0, 0, 0, 0, 0, 0, 0], 7, Private),   // RFC 4193
    v6([0xfe80, 0, 0, 0, 0, 0, 0, 0], 10, LinkLocal), // RFC 4291, section 2.5.6
    v6([0xfec0, 0, 0, 0, 0, 0, 0, 0], 10, Private),  // RFC 3879: site-local, deprecated
    v6([0xff00, 0, 0, 0, 0, 0, 0, 0], 8, Multicast), // RFC 4291, section 2.7
];

/// The part of the IPv6 address space from which public addresses are assigned: RFC 4291, section 2.4.
const GLOBAL_UNICAST: Range = v6([0x2000, 0, 0, 0, 0, 0, 0, 0], 3, Public);

const fn v4(first: [u8; 4], bits: u32, kind: AddressKind) -> Range {
    let [a, b, c, d] = first;
    Range { first: IpAddr::V4(Ipv4Addr::new(a, b, c, d)), bits, kind }
}

const fn v6(s: [u16; 8], bits: u32, kind: AddressKind) -> Range {
    Range { first: IpAddr::V6(Ipv6Addr::new(s[0], s[1], s[2], s[3], s[4], s[5], s[6], s[7])), bits, kind }
}

impl Range {
    fn contains(&self, address: IpAddr) -> bool {
        let same = |one: u128, other: u128, all: u32| (one ^ other).checked_shr(all - self.bits).unwrap_or(0) == 0;
        match (self.first, address) {
            (IpAddr::V4(first), IpAddr::V4(address)) => same(first.to_bits().into(), address.to_bits().into(), 32),
            (IpAddr::V6(first), IpAddr::V6(address)) => same(first.to_bits(), address.to_bits(), 128),
            _ => false,
        }
    }
}

impl AddressKind {
    pub(crate) fn of(address: IpAddr) -> Self {
        let found = RANGES.iter().find(|range| range.contains(address)).map(|range| range.kind);
        match (found, address) {
            (Some(Embedded(from)), IpAddr::V6(address)) => {
                let bytes = address.to_bits().wrapping_shl(from).to_be_bytes();
                let [a, b, c, d, ..] = bytes;
                Self::of(Ipv4Addr::new(a, b, c, d).into())
            }
            (Some(kind), _) => kind,
            (None, IpAddr::V6(_)) if !GLOBAL_UNICAST.contains(address) => Reserved,
            (None, _) => Public,
        }
    }

    /// Whether such an address belongs to the machine, its link or its cloud, so that no registry can have it.
    fn is_local(self) -> bool {
        matches!(self, Loopback | LinkLocal | Metadata | ThisHost | Multicast)
    }
}

impl fmt::Display for AddressKind {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            Public => "public",
            Private => "private",
            Shared => "carrier-grade NAT",
            Documentation => "documentation",
            Reserved | Embedded(_) => "reserved",
            Loopback => "loopback",
            LinkLocal => "link-local",
            Metadata => "cloud metadata",
            ThisHost => "unspecified",
            Multicast => "multicast",
        })
    }
}

impl AddressRule {
    /// The rule that a RegistryPolicy sets: either all registries that are queried are listed, or none is.
    pub fn of(policy: &RegistryPolicy) -> Self {
        if policy.registries.is_empty() { Self::Public } else { Self::Listed }
    }

    /// Whether `host`, a registry or a host to which one refers, may have `address`.
    pub(crate) fn check(self, host: &str, address: IpAddr) -> Result<(), ForbiddenAddress> {
        let kind = AddressKind::of(address);
        let allowed = match self {
            Self::Public => kind == Public,
            Self::Listed => !kind.is_local(),
            Self::Any => true,
        };
        if allowed { Ok(()) } else { Err(ForbiddenAddress { host: host.into(), address, kind }) }
    }

    /// Whether `host` of a URL may be connected to, as far as that can be decided without a resolver: it is an address,
    /// or a name of this machine (RFC 6761, section 6.3).
    pub(crate) fn check_text(self, host: &str) -> Result<(), ForbiddenAddress> {
        let bare = host.strip_prefix('[').and_then(|rest| rest.strip_suffix(']')).unwrap_or(host);
        let name = bare.trim_end_matches('.').to_ascii_lowercase();
        let address = match bare.parse() {
            Ok(address) => address,
            Err(_) if name == "localhost" || name.ends_with(".localhost") => Ipv4Addr::LOCALHOST.into(),
            Err(_) => return Ok(()),
        };
        self.check(host, address)
    }
}

impl ForbiddenAddress {
    fn advice(&self) -> &'static str {
        if self.kind.is_local() {
            "which no registry may have"
        } else {
            "so the registry of the image must be listed in spec.registries of the RegistryPolicy"
        }
    }
}

#[cfg(test)]
mod tests {

    #![allow(clippy::unwrap_used, clippy::indexing_slicing, reason = "tests")]

    use proptest::prelude::*;

    use super::*;

    /// Addresses, mostly the first and last of a range and their neighbors.
    const KINDS: &[(AddressKind, &[&str])] = &[
        (
            Public,
            &[
                "1.0.0.0",
                "8.8.8.8",
                "9.255.255.255",
                "11.0.0.0",
                "100.63.255.255",
                "100.128.0.0",
                "126.255.255.255",
                "128.0.0.0",
                "168.63.129.15",
                "169.253.255.255",
                "169.255.0.0",
                "172.15.255.255",
                "172.32.0.0",
                "192.0.1.0",
                "192.0.3.0",
                "192.31.196.1",
                "192.52.193.1",
                "192.167.255.255",
                "192.169.0.0",
                "192.175.48.1",
                "198.17.255.255",
                "198.20.0.0",
                "203.0.112.255",
                "223.255.255.255",
                "2000::1",
                "2001:200::1",
                "2001:4860:4860::8888",
                "2620:4f:8000::1",
                "3ffe::1",
                "3fff:1000::",
                "::ffff:8.8.8.8",
                "::8.8.8.8",
                "64:ff9b::808:808",
                "2002:808:808::1",
            ],
        ),
        (
            Private,
            &[
                "10.0.0.0",
                "10.255.255.255",
                "172.16.0.0",
                "172.31.255.255",
                "192.168.0.0",
                "192.168.255.255",
                "fc00::",
                "fd00:ec1:ffff::",
                "fd00:ec3::",
                "fdff:ffff::1",
                "fec0::1",
                "64:ff9b:1::a00:1",
                "::ffff:10.1.2.3",
                "::10.1.2.3",
                "::ffff:0:10.1.2.3",
                "64:ff9b::a01:203",
                "2002:a01:203::1",
            ],
        ),
        (Shared, &["100.64.0.0", "100.100.100.199", "100.127.255.255", "::ffff:100.64.0.1"]),
        (
            Loopback,
            &["127.0.0.0", "127.0.0.1", "127.255.255.255", "::1", "::ffff:127.0.0.1", "::7f00:1", "2002:7f00:1::"],
        ),
        (
            LinkLocal,
            &[
                "169.254.0.0",
                "169.254.169.254",
                "169.254.255.255",
                "fe80::",
                "febf:ffff::1",
                "::ffff:169.254.169.254",
                "64:ff9b::a9fe:a9fe",
            ],
        ),
        (
            Metadata,
            &[
                "168.63.129.16",
                "100.100.100.200",
                "fd00:ec2::254",
                "fd00:ec2::23",
                "fd20:ce::254",
                "::ffff:168.63.129.16",
            ],
        ),
        (ThisHost, &["0.0.0.0", "0.1.2.3", "0.255.255.255", "::", "::ffff:0.0.0.0"]),
        (Multicast, &["224.0.0.0", "239.255.255.255", "ff00::", "ff02::1", "::ffff:224.0.0.1"]),
        (
            Documentation,
            &[
                "192.0.2.1",
                "198.51.100.255",
                "203.0.113.0",
                "2001:db8::1",
                "2001:db8:ffff::",
                "3fff::",
                "3fff:fff:ffff::1",
            ],
        ),
        (
            Reserved,
            &[
                "192.0.0.0",
                "192.0.0.192",
                "192.88.99.1",
                "198.18.0.0",
                "198.19.255.255",
                "240.0.0.0",
                "255.255.255.255",
                "100::1",
                "100:0:0:1::1",
                "2001::1",
                "2001:2::1",
                "2001:1ff:ffff::1",
                "4000::1",
                "5f00::1",
                "fbff::1",
                "fe00::1",
                "64:ff9b:2::1",
            ],
        ),
    ];

    #[test]
    fn every_address_has_one_kind() {
        for (kind, addresses) in KINDS {
            for text in *addresses {
                assert_eq!(AddressKind::of(text.parse().unwrap()), *kind, "{text}");
            }
        }
    }

    #[test]
    fn ranges_begin_at_their_first_address() {
        for range in RANGES {
            let (bits, all) = match range.first {
                IpAddr::V4(first) => (u128::from(first.to_bits()), 32),
                IpAddr::V6(first) => (first.to_bits(), 128),
            };
            assert!(range.bits == all || bits.trailing_zeros() >= all - range.bits, "{}/{}", range.first, range.bits);
            assert!(range.contains(range.first));
        }
    }

    #[test]
    fn rules_allow_kinds() {
        for (kind, addresses) in KINDS {
            for text in *addresses {
                let allowed = |rule: AddressRule| rule.check("r.example", text.parse().unwrap()).is_ok();
                assert!(allowed(AddressRule::Any), "{text}");
                assert_eq!(allowed(AddressRule::Public), *kind == Public, "{text}");
                let local = [Loopback, LinkLocal, Metadata, ThisHost, Multicast].contains(kind);
                assert_eq!(allowed(AddressRule::Listed), !local, "{text}");
                // The same in a URL.
                let host = if text.contains(':') { format!("[{text}]") } else { (*text).to_owned() };
                assert_eq!(AddressRule::Listed.check_text(&host).is_ok(), !local, "{text}");
            }
        }
        for host in ["localhost", "LOCALHOST.", "a.localhost"] {
            assert!(
                AddressRule::Listed.check_text(host).is_err() && AddressRule::Any.check_text(host).is_ok(),
                "{host}"
            );
        }
        for host in ["registry.example", "localhost.example", "notlocalhost", "127.1", "2130706433", ""] {
            assert!(AddressRule::Public.check_text(host).is_ok(), "only a resolver knows {host}");
        }
    }

    #[test]
    fn a_message_names_host_kind_and_key() {
        let message = |address: &str| {
            let error = AddressRule::Public.check("r.example", address.parse().unwrap()).unwrap_err();
            error.to_string()
        };
        assert_eq!(
            message("10.1.2.3"),
            "r.example has the private address 10.1.2.3, so the registry of the image must be listed in spec.registries of the \
             RegistryPolicy"
        );
        assert_eq!(
            message("169.254.169.254"),
            "r.example has the link-local address 169.254.169.254, which no registry may have"
        );
    }

    proptest! {
        /// The standard library knows some of the kinds.
        #[test]
        fn agrees_with_the_standard_library(v4: [u8; 4], v6: [u16; 8], high in prop::sample::select(vec![0xfc00, 0xfe80, 0xff00, 0x2000])) {
            let address = Ipv4Addr::from(v4);
            let kind = AddressKind::of(address.into());
            prop_assert_eq!(kind == Private, address.is_private());
            prop_assert_eq!(kind == Loopback, address.is_loopback());
            prop_assert_eq!(kind == LinkLocal, address.is_link_local());
            prop_assert_eq!(kind == Multicast, address.is_multicast());
            prop_assert_eq!(kind == Documentation, address.is_documentation());
            let mapped = AddressKind::of(address.to_ipv6_mapped().into());
            prop_assert_eq!(mapped, kind);
            let mut segments = v6;
            segments[0] = high | (v6[0] & 0x3f);
            let address = Ipv6Addr::from(segments);
            let kind = AddressKind::of(address.into());
            // An address of 6to4 has the kind of the IPv4 address in it.
            let is_6to4 = segments[0] == 0x2002;
            prop_assert!(is_6to4 || (kind == LinkLocal) == address.is_unicast_link_local(), "{}", address);
            prop_assert!(is_6to4 || (kind == Multicast) == address.is_multicast(), "{}", address);
            prop_assert!(!address.is_unique_local() || matches!(kind, Private | Metadata), "{} {:?}", address, kind);
        }
    }
}
