#!/usr/bin/env bash
# Tests release/verify.sh with copies of the files of a release, each of which was changed: tests/release/tampered.sh FOLDER
# Checksums are computed again after most changes, as an attacker who replaces files would do.
# trial calls the functions by their names.
# shellcheck disable=SC2317
set -euo pipefail
cd "$(dirname "$0")/../.."
verify=$PWD/release/verify.sh
folder=$(cd "$1" && pwd)
work=$(mktemp -d)
trap 'rm -rf "$work"' EXIT
export LC_ALL=C
failed=0 tried=0
version=$(cd "$folder" && ls mullion-*.tgz)
version=${version#mullion-} version=${version%.tgz}
linux=mullion-$version-x86_64-unknown-linux-musl

sums() { rm SHA256SUMS && sha256sum -- mullion* >"$work/sums" && cp "$work/sums" SHA256SUMS; }
# trial CHANGE EXPECTED: makes a copy, runs the function CHANGE in it, and expects a failure that prints EXPECTED.
trial() {
	local change=$1 expected=$2
	tried=$((tried + 1))
	rm -rf "$work/copy" "$work/unpacked"
	cp -r "$folder" "$work/copy"
	mkdir "$work/unpacked"
	(cd "$work/copy" && "$change")
	if "$verify" "$work/copy" >"$work/output" 2>&1; then
		echo "tampered: $change: verify.sh accepts it" >&2
		failed=1
	elif ! grep -qF -- "$expected" "$work/output"; then
		echo "tampered: $change: verify.sh does not print: $expected; it prints: $(cat "$work/output")" >&2
		failed=1
	fi
}

changed_byte() { printf x | dd of="$linux.tar.gz" bs=1 seek=1000 conv=notrunc status=none; }
additional_file() { touch mullion-extra; }
missing_file() { rm "$linux.cdx.json"; }
missing_checksum() { sed -i "/$linux.tar.gz/d" SHA256SUMS; }
other_program() {
	tar -C "$work/unpacked" -xzf "$linux.tar.gz"
	printf x >>"$work/unpacked/$linux/mullion"
	tar -C "$work/unpacked" -czf "$linux.tar.gz" "$linux"
	sums
}
# image FUNCTION: changes the layout of the image.
image() {
	tar -C "$work/unpacked" -xf "mullion-$version-image.tar"
	(cd "$work/unpacked" && "$1")
	tar -C "$work/unpacked" -cf "mullion-$version-image.tar" blobs index.json oci-layout
	sums
}
append_to_a_blob() { printf ' ' >>"blobs/sha256/$(find blobs/sha256 -size -2k -printf '%f\n' | sort | head -n 1)"; }
changed_blob() { image append_to_a_blob; }
# Replaces the index with a consistent one, without arm64.
one_architecture() {
	local old new digest manifest
	old=$(jq -r '.manifests[0].digest' index.json)
	jq -c '.manifests |= map(select(.platform.architecture == "amd64"))' "blobs/sha256/${old#sha256:}" >index
	new=$(sha256sum index | cut -d ' ' -f 1)
	jq -c --arg new "sha256:$new" --argjson size "$(stat -c %s index)" '.manifests[0] |= (.digest = $new | .size = $size)' index.json >changed
	mv changed index.json
	mv index "blobs/sha256/$new"
	while read -r digest; do rm "blobs/sha256/${digest#sha256:}"; done < <(
		manifest=$(jq -r '.manifests[] | select(.platform.architecture == "arm64").digest' "blobs/sha256/${old#sha256:}")
		jq -r '.config.digest, .layers[].digest' "blobs/sha256/${manifest#sha256:}"
		echo "$manifest"
		echo "$old"
	)
}
index_without_arm64() { image one_architecture; }
other_chart() {
	tar -C "$work/unpacked" -xzf "mullion-$version.tgz"
	sed -i 's/^appVersion:.*/appVersion: 99.0.0/' "$work/unpacked/mullion/Chart.yaml"
	tar -C "$work/unpacked" -czf "mullion-$version.tgz" mullion
	sums
}
other_bill() {
	jq '.metadata.component.hashes[0].content = "0"' "mullion-$version-image.cdx.json" >"$work/bill"
	cp "$work/bill" "mullion-$version-image.cdx.json"
	sums
}
other_plugin() {
	sed -i 's/sha256: "./sha256: "x/' mullion.yaml
	sums
}

"$verify" "$folder" >/dev/null || { echo "tampered: verify.sh rejects the unchanged files" >&2; exit 1; }
trial changed_byte "$linux.tar.gz: the checksum is wrong"
trial additional_file "mullion-extra is not a file of the release"
trial missing_file "$linux.cdx.json is missing"
trial missing_checksum "SHA256SUMS does not list $linux.tar.gz"
trial other_program "the program for amd64 is not the one in $linux.tar.gz"
trial changed_blob "has another digest than its name"
trial index_without_arm64 'the index has entries for ["linux/amd64"]'
trial other_chart "appVersion is 99.0.0 instead of $version"
trial other_bill "describes another image"
trial other_plugin "mullion.yaml does not contain $linux.tar.gz with its checksum"
[ "$failed" = 0 ] && echo "release: verify.sh detects all $tried changes"
exit "$failed"
