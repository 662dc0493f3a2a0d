//! The product of a Windows node: Windows Server, or a Windows 10 or 11 with the same build and other dates.

use mullion_engine::model::windows::{Build, RELEASES};
use serde::Deserialize;

/// The product of a Windows node.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, PartialOrd, Ord, Hash, Deserialize)]
#[serde(rename_all = "camelCase")]
pub enum NodeProduct {
    /// Windows Server.
    #[default]
    Server,
    /// Windows 10 or 11.
    Client,
    /// Windows 10 or 11 of the Long-Term Servicing Channel.
    ClientLtsc,
    /// Not known: the node has no status, and both have its build.
    #[serde(skip)]
    Unknown,
}

impl NodeProduct {
    /// Of `status.nodeInfo.osImage`, such as `Windows 11 Pro`; without one, of a build that only Windows 10 or 11 has.
    pub(crate) fn of(os_image: &str, build: Option<Build>) -> Self {
        let name = os_image.strip_prefix("Microsoft ").unwrap_or(os_image);
        let has = |is_server| is_of(build, is_server);
        if name.starts_with("Windows 10") || name.starts_with("Windows 11") {
            // LTSB is the name of LTSC before 2019.
            if ["LTSC", "LTSB"].iter().any(|word| name.contains(word)) { Self::ClientLtsc } else { Self::Client }
        } else if has(false) && !has(true) {
            Self::Client
        } else {
            Self::Server
        }
    }

    /// Of a node without a status: known only if one product alone has the build of its label.
    pub(crate) fn of_label(build: Option<Build>) -> Self {
        match (is_of(build, false), is_of(build, true)) {
            (true, true) => Self::Unknown,
            (true, false) => Self::Client,
            (false, _) => Self::Server,
        }
    }

    /// The name of a client with that build: `Windows 11 24H2`, as in the table of releases. Absent for servers, and for
    /// builds without a client.
    pub(crate) fn client_name(self, build: Build) -> Option<String> {
        let client = RELEASES.iter().find(|release| release.build == build && !release.is_server())?;
        match self {
            Self::Server | Self::Unknown => None,
            Self::Client => Some(client.product.to_owned()),
            Self::ClientLtsc => Some(format!("{} LTSC", client.product)),
        }
    }
}

/// Whether a server, or a client, has that build.
fn is_of(build: Option<Build>, is_server: bool) -> bool {
    RELEASES.iter().any(|one| Some(one.build) == build && one.is_server() == is_server)
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Values of `osImage` of nodes in public issues: `windows.md` 7.
    #[test]
    fn products_of_nodes() {
        for (os_image, build, name) in [
            ("Windows Server 2022 Datacenter", 20348, None),
            ("Windows Server 2022 Standard Auswertung", 20348, None),
            ("Windows Server Datacenter", 19041, None),
            ("Windows Server vNext", 27718, None),
            ("Azure Stack HCI", 20349, None),
            ("Microsoft Windows [Version 10.0.14393]", 14393, None),
            ("", 17763, None),
            ("", 22631, Some("Windows 11 23H2")),
            ("Windows 10 Enterprise", 22631, Some("Windows 11 23H2")),
            ("Windows 11 Pro", 26100, Some("Windows 11 24H2")),
            ("Windows 11 Pro", 26200, Some("Windows 11 25H2")),
            ("Windows 10 Pro", 17763, Some("Windows 10 1809")),
            ("Microsoft Windows 10 Enterprise 2016 LTSB", 14393, Some("Windows 10 1607 LTSC")),
            ("Windows 10 IoT Enterprise LTSC", 17763, Some("Windows 10 1809 LTSC")),
        ] {
            let build = Build::new(build);
            let found = NodeProduct::of(os_image, Some(build)).client_name(build);
            assert_eq!(found.as_deref(), name, "{os_image} {build}");
        }
    }
}
