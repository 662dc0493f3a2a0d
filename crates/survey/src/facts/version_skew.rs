//! Version skew: how many minor versions a kubelet can be older than the API server, by the version of the kubelet.

use crate::facts::constraints::{ConstraintRow, Limit};
use mullion_engine::model::MinorVersion;

/// The skew that a cluster permits.
#[derive(Debug, Clone, Default)]
pub struct VersionSkew<'a> {
    /// Rows with [`Limit::VersionSkew`], the one that applies first at the front.
    rows: Vec<&'a ConstraintRow>,
}

impl<'a> VersionSkew<'a> {
    /// Of rows of the cluster's provider, and of those of every cluster. A row for old kubelets applies before one for all,
    /// and then that of the provider before that of Kubernetes.
    pub fn of(rows: impl Iterator<Item = &'a ConstraintRow>) -> Self {
        let mut rows: Vec<_> = rows.filter(|row| matches!(row.limit, Limit::VersionSkew { .. })).collect();
        rows.sort_by_key(|row| (until_of(row).unwrap_or(MinorVersion::MAX), row.provider.is_none()));
        Self { rows }
    }

    /// The row that applies to a kubelet; without a kubelet, to a new one.
    pub fn row(&self, kubelet: Option<MinorVersion>) -> Option<&'a ConstraintRow> {
        let kubelet = kubelet.unwrap_or(MinorVersion::MAX);
        self.rows.iter().copied().find(|row| until_of(row).is_none_or(|until| kubelet <= until))
    }

    /// The newest control plane that a kubelet permits. Absent if no row applies.
    pub fn newest_control_plane(&self, kubelet: MinorVersion) -> Option<MinorVersion> {
        match self.row(Some(kubelet))?.limit {
            Limit::VersionSkew { minors, .. } => Some(kubelet.later(minors)),
            _ => None,
        }
    }

    /// The oldest kubelet that a control plane permits.
    pub fn oldest_kubelet(&self, control_plane: MinorVersion) -> MinorVersion {
        let permits = |kubelet: &MinorVersion| self.newest_control_plane(*kubelet) >= Some(control_plane);
        let older = (1..=MAX_SKEW).map(|minors| control_plane.earlier(minors));
        older.take_while(permits).last().unwrap_or(control_plane)
    }
}

/// More than any skew of a table that makes sense, for the search of the oldest kubelet.
const MAX_SKEW: u16 = 20;

fn until_of(row: &ConstraintRow) -> Option<MinorVersion> {
    match row.limit {
        Limit::VersionSkew { until, .. } => until,
        _ => None,
    }
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used, reason = "tests")]

    use super::*;
    use crate::facts::Facts;

    fn version(text: &str) -> MinorVersion {
        MinorVersion::of(text).unwrap()
    }

    /// kubernetes.io/releases/version-skew-policy: before 1.25 a kubelet may be two minor versions older, since 1.25 three.
    #[test]
    fn by_the_version_of_the_kubelet() {
        let facts = Facts::built_in();
        for provider in ["", "AKS", "EKS"] {
            let rows = facts.constraints.iter();
            let skew =
                VersionSkew::of(rows.filter(|row| row.provider.is_none() || row.provider.as_deref() == Some(provider)));
            for (kubelet, newest) in [
                ("1.9", "1.11"),
                ("1.19", "1.21"),
                ("1.20", "1.22"),
                ("1.24", "1.26"),
                ("1.25", "1.28"),
                ("1.32", "1.35"),
                ("1.37", "1.40"),
            ] {
                assert_eq!(skew.newest_control_plane(version(kubelet)), Some(version(newest)), "{provider} {kubelet}");
            }
            for (control_plane, oldest) in [
                ("1.22", "1.20"),
                ("1.26", "1.24"),
                ("1.27", "1.25"),
                ("1.28", "1.25"),
                ("1.29", "1.26"),
                ("1.36", "1.33"),
            ] {
                assert_eq!(skew.oldest_kubelet(version(control_plane)), version(oldest), "{provider} {control_plane}");
            }
        }
        assert_eq!(VersionSkew::default().newest_control_plane(version("1.32")), None);
        assert_eq!(VersionSkew::default().oldest_kubelet(version("1.32")), version("1.32"));
    }
}
