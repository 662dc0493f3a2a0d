#!/usr/bin/env bash
# Builds the files of a release: release/build.sh FOLDER TOOLS. TOOLS is the folder with crane and helm.
# The same commit produces the same bytes on every machine with the same versions of Rust, the C compilers, ca-certificates, tar,
# gzip and zip. If TAG is set, it must be v<version>.
set -euo pipefail
cd "$(dirname "$0")/.."
out=$1 tools=$2
cargo=${CARGO:-cargo}
version=$("$cargo" metadata --locked --no-deps --format-version 1 | jq -r '.packages[] | select(.name == "mullion").version')
[ -z "${TAG:-}" ] || [ "$TAG" = "v$version" ] || { echo "release: the tag is $TAG, and the version in Cargo.toml is $version" >&2; exit 1; }
revision=$(git describe --always --dirty --abbrev=40 --exclude '*')
amd64=x86_64-unknown-linux-musl
arm64=aarch64-unknown-linux-musl
windows=x86_64-pc-windows-gnu

# The modification time of every packed file: by default the time of the commit.
if [ -z "${SOURCE_DATE_EPOCH:-}" ]; then
	SOURCE_DATE_EPOCH=$(git log -1 --format=%ct)
fi
export SOURCE_DATE_EPOCH LC_ALL=C TZ=UTC
umask 022

rm -rf "$out"
mkdir -p "$out"
out=$(cd "$out" && pwd)
work=$(mktemp -d)
trap 'rm -rf "$work"' EXIT

say() { echo "release: $*" >&2; }

# These functions pack files. Owner, time and permissions are fixed, because those of a checkout depend on the user's
# umask.
tar_of() { # FOLDER NAME…
	local folder=$1
	shift
	chmod -R u=rwX,go=rX "$folder"
	tar --sort=name --mtime="@$SOURCE_DATE_EPOCH" --owner=0 --group=0 --numeric-owner --format=gnu -C "$folder" -cf - "$@"
}
pack_tar() { tar_of "$work" "$2" | gzip -9n >"$out/$1"; }
pack_zip() {
	chmod -R u=rwX,go=rX "$work/$2"
	find "$work/$2" -exec touch -hd "@$SOURCE_DATE_EPOCH" {} +
	(cd "$work" && find "$2" -type f | sort | zip -q -X -9 "$out/$1" -@)
}

mapfile -t programs < <(release/programs.sh "$amd64" "$arm64" "$windows")
[ "${#programs[@]}" = 3 ] || { say "a program was not built"; exit 1; }

say "completions and manual"
mullion=${programs[0]}
mkdir -p "$work/completions"
"$mullion" completions bash >"$work/completions/mullion.bash"
"$mullion" completions zsh >"$work/completions/_mullion"
"$mullion" completions fish >"$work/completions/mullion.fish"
"$mullion" completions powershell >"$work/completions/mullion.ps1"
"$mullion" completions elvish >"$work/completions/mullion.elv"
"$mullion" man "$work/man" 2>/dev/null

say "packing"
pack_linux() { # TARGET PROGRAM
	local folder="mullion-$version-$1"
	mkdir "$work/$folder"
	install -m 755 "$2" "$work/$folder/mullion"
	# kubectl finds plugins by these names.
	ln -s mullion "$work/$folder/kubectl-mullion"
	ln -s mullion "$work/$folder/kubectl_complete-mullion"
	cp -r "$work/completions" "$work/man" LICENSE docs/how-to/command-line.md "$work/$folder"
	pack_tar "$folder.tar.gz" "$folder"
}
pack_linux "$amd64" "${programs[0]}"
pack_linux "$arm64" "${programs[1]}"

folder="mullion-$version-$windows"
mkdir "$work/$folder"
install -m 755 "${programs[2]}" "$work/$folder/mullion.exe"
cp -r "$work/completions" LICENSE docs/how-to/command-line.md "$work/$folder"
pack_zip "$folder.zip" "$folder"

say "chart"
"$tools/helm" package charts/mullion --destination "$work" >/dev/null
chart=$(cd "$work" && echo mullion-*.tgz)
# Helm writes the current time into the archive, so it is packed again.
tar -C "$work" -xzf "$work/$chart"
pack_tar "$chart" mullion
touch -d "@$SOURCE_DATE_EPOCH" "$out/$chart"

say "image"
mkdir "$work/layers" "$work/oci"
release/image-root.sh "$work/root-amd64" "${programs[0]}"
release/image-root.sh "$work/root-arm64" "${programs[1]}"
for architecture in amd64 arm64; do
	tar_of "$work/root-$architecture" LICENSE etc usr | gzip -9n >"$work/layers/$architecture.tar.gz"
done
release/oci.sh "$work/oci" "$tools/crane" "$tools/helm" "$revision" "$out/$chart" "$work/layers"
tar_of "$work/oci/image" blobs index.json oci-layout >"$out/mullion-$version-image.tar"
tar_of "$work/oci/chart" blobs index.json oci-layout >"$out/mullion-$version-chart.tar"

say "bills of materials"
bills=()
for target in "$amd64" "$arm64" "$windows"; do
	bill="$out/mullion-$version-$target.cdx.json"
	release/sbom.sh "$work/sbom-$target" "$target" >"$bill"
	case $target in *linux*) bills+=("$bill") ;; esac
done
release/image-sbom.sh "$work/oci/image" "${bills[@]}" >"$out/mullion-$version-image.cdx.json"

say "manifest of the kubectl plugin"
(cd "$out" && sha256sum -- *.tar.gz *.zip) >"$work/SHA256SUMS"
packaging/krew/manifest.sh "$work" >"$out/mullion.yaml"

(cd "$out" && sha256sum -- * >"$work/SHA256SUMS" && mv "$work/SHA256SUMS" .)
say "in $out:"
(cd "$out" && ls -l)
