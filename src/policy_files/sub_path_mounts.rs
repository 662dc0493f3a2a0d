//! Mounts that never change: a kubelet updates a ConfigMap only if the whole volume is mounted, without `subPath`.

use std::path::Path;

/// The mount points with `subPath` at or below `directory`, from the text of `/proc/self/mountinfo`.
///
/// The root of such a mount is below the version of the ConfigMap at the start of the pod,
/// `…/volumes/kubernetes.io~configmap/policies/..2026_11_21_15_00_00.123/a.yaml`, because the kubelet follows the links before
/// it mounts (`doBindSubPath` in `pkg/volume/util/subpath/subpath_linux.go`). The root of a whole volume has no `..` part.
pub(crate) fn sub_path_mounts(mountinfo: &str, directory: &Path) -> Vec<String> {
    let mount = |line: &str| {
        let mut fields = line.split(' ').skip(3);
        let (root, point) = (unescaped(fields.next()?), unescaped(fields.next()?));
        let (_, below) = root
            .split_once("/kubernetes.io~configmap/")
            .or_else(|| root.split_once("/kubernetes.io~projected/"))
            .or_else(|| root.split_once("/kubernetes.io~secret/"))?;
        let versioned = below.split('/').any(|part| part.starts_with(".."));
        (versioned && Path::new(&point).starts_with(directory)).then_some(point)
    };
    let mut found: Vec<String> = mountinfo.lines().filter_map(mount).collect();
    found.sort_unstable();
    found
}

/// Blanks and similar characters are written as `\040`.
fn unescaped(field: &str) -> String {
    [("\\040", " "), ("\\011", "\t"), ("\\012", "\n"), ("\\134", "\\")]
        .iter()
        .fold(field.to_owned(), |text, (code, meant)| text.replace(code, meant))
}

#[cfg(test)]
mod tests {

    use super::*;

    const MOUNTS: &str = "\
2163 2040 0:1010 / /proc rw,nosuid - proc proc rw
2171 2040 8:1 /var/lib/kubelet/pods/7c/volumes/kubernetes.io~configmap/policies /etc/mullion/whole ro,relatime - ext4 /dev/sda1 rw
2172 2040 8:1 /var/lib/kubelet/pods/7c/volumes/kubernetes.io~configmap/policies/..2026_11_21_15_00_00.123/a.yaml /etc/mullion/policies/a.yaml ro - ext4 /dev/sda1 rw
2173 2040 8:1 /pods/7c/volumes/kubernetes.io~projected/all/..2026_11_21_15_00_00.9/dir//deleted /etc/mullion/my\\040own ro - ext4 /dev/sda1 rw
2174 2040 8:1 /var/lib/kubelet/pods/7c/volumes/kubernetes.io~configmap/other/..2026_11_21_15_00_00.1/b.yaml /etc/mullion-other/b.yaml ro - ext4 /dev/sda1 rw
2175 2040 8:1 /home/..data/x /etc/mullion/policies/x rw - ext4 /dev/sda1 rw
short line
";

    #[test]
    fn a_sub_path_is_reported() {
        let all = ["/etc/mullion/my own", "/etc/mullion/policies/a.yaml"];
        for (directory, expected) in [
            ("/etc/mullion", &all[..]),
            ("/etc/mullion/policies", &all[1..]),
            ("/etc/mullion/my own", &all[..1]),
            ("/etc/mullion/whole", &[]),
            ("/etc", &[all[0], "/etc/mullion-other/b.yaml", all[1]]),
        ] {
            let mut found = sub_path_mounts(MOUNTS, Path::new(directory));
            let mut expected = expected.to_vec();
            found.sort_unstable();
            expected.sort_unstable();
            assert_eq!(found, expected, "{directory}");
        }
        assert!(sub_path_mounts("", Path::new("/")).is_empty());
    }
}
