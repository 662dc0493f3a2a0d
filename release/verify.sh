#!/usr/bin/env bash
# Verifies the downloaded files of a release: verify.sh FOLDER
# It needs bash, tar, unzip, jq and sha256sum, and no checkout of the repository. It prints each problem and exits with 1 if there is one.
# It compares the files with SHA256SUMS and with each other. SHA256SUMS is not signed: to find out whether the files are those of
# a commit, build the commit again (`make reproduce`), or compare SHA256SUMS with the one from another source.
set -euo pipefail
export LC_ALL=C
if [ $# != 1 ] || [ ! -f "$1/SHA256SUMS" ]; then
	echo "usage: verify.sh FOLDER, with the files of a release, SHA256SUMS included" >&2
	exit 2
fi
for tool in tar unzip jq sha256sum; do
	command -v "$tool" >/dev/null || { echo "verify: $tool is missing: install it (Debian: apt-get install $tool)" >&2; exit 2; }
done
cd "$1"
problems=0
bad() {
	echo "verify: $*" >&2
	problems=$((problems + 1))
}
work=$(mktemp -d)
trap 'rm -rf "$work"' EXIT
sum_of() { sha256sum <"$1" | cut -d ' ' -f 1; }

# The version is that of the chart. The names of all files but mullion.yaml contain it.
chart=$(find . -maxdepth 1 -name 'mullion-*.tgz' -printf '%f\n')
version=${chart#mullion-}
version=${version%.tgz}
[[ $version =~ ^[0-9]+\.[0-9]+\.[0-9]+[0-9A-Za-z.+-]*$ ]] || { bad "expected one chart mullion-<version>.tgz, found: ${chart:-none}"; exit 1; }
amd64=mullion-$version-x86_64-unknown-linux-musl
arm64=mullion-$version-aarch64-unknown-linux-musl
windows=mullion-$version-x86_64-pc-windows-gnu
image=mullion-$version-image

# Every file, no other file, and each with its checksum.
printf '%s\n' {"$amd64","$arm64"}{.tar.gz,.cdx.json} "$windows"{.zip,.cdx.json} "$image"{.tar,.cdx.json} \
	"mullion-$version-chart.tar" "mullion-$version.tgz" mullion.yaml | sort >"$work/expected"
find . -mindepth 1 ! -path ./SHA256SUMS -printf '%P\n' | sort >"$work/present"
while IFS= read -r name; do bad "$name is missing"; done < <(comm -23 "$work/expected" "$work/present")
while IFS= read -r name; do bad "$name is not a file of the release"; done < <(comm -13 "$work/expected" "$work/present")
sed 's/^[0-9a-f]\{64\} [ *]//' SHA256SUMS | sort >"$work/listed"
while IFS= read -r name; do bad "SHA256SUMS does not list $name"; done < <(comm -23 "$work/expected" "$work/listed")
while IFS= read -r line; do bad "$line"; done < <(sha256sum --quiet --check SHA256SUMS 2>&1 | sed -n 's/: FAILED$/: the checksum is wrong/p')
# What follows reads the files, so they must be complete.
[ "$problems" = 0 ] || exit 1

# The chart has the version in its name.
tar -xzOf "$chart" mullion/Chart.yaml >"$work/Chart.yaml"
for key in version appVersion; do
	value=$(sed -n "s/^$key: *//p" "$work/Chart.yaml" | tr -d "\"'")
	[ "$value" = "$version" ] || bad "$chart: $key is $value instead of $version"
done

# layout NAME: unpacks an OCI layout. Each blob must have the digest that is its name, and must be reachable from index.json.
blob() { echo "$work/$1/blobs/sha256/${2#sha256:}"; }
layout() {
	local file digest size
	mkdir "$work/$1"
	tar -C "$work/$1" -xf "mullion-$version-$1.tar"
	jq -e '.imageLayoutVersion == "1.0.0"' "$work/$1/oci-layout" >/dev/null || bad "$1: this is not an OCI layout"
	for file in "$work/$1/blobs/sha256/"*; do
		[ "$(sum_of "$file")" = "${file##*/}" ] || bad "$1: blob ${file##*/} has another digest than its name"
	done
	[ "$(jq '.manifests | length' "$work/$1/index.json")" = 1 ] || bad "$1: index.json has not exactly one entry"
	echo "$work/$1/index.json" >"$work/todo"
	: >"$work/reached"
	while [ -s "$work/todo" ]; do
		file=$(head -n 1 "$work/todo")
		sed -i 1d "$work/todo"
		while read -r digest size type; do
			echo "${digest#sha256:}" >>"$work/reached"
			if [ "$(stat -c %s "$(blob "$1" "$digest")" 2>/dev/null)" != "$size" ]; then
				bad "$1: blob $digest is missing or has not $size bytes"
			elif [[ $type == *.index.v1+json || $type == *.manifest.v1+json ]]; then
				blob "$1" "$digest" >>"$work/todo"
			fi
		done < <(jq -r '(.manifests // [])[], (.config | values), (.layers // [])[] | "\(.digest) \(.size) \(.mediaType)"' "$file")
	done
	find "$work/$1/blobs/sha256" -type f -printf '%f\n' | sort | diff - <(sort -u "$work/reached") >/dev/null ||
		bad "$1: the layout contains blobs that nothing refers to"
}

layout chart
manifest=$(blob chart "$(jq -r '.manifests[0].digest' "$work/chart/index.json")")
content=$(jq -r '.layers[] | select(.mediaType == "application/vnd.cncf.helm.chart.content.v1.tar+gzip").digest' "$manifest")
[ "$content" = "sha256:$(sum_of "$chart")" ] || bad "mullion-$version-chart.tar does not contain $chart"

layout image
# What follows reads the blobs.
[ "$problems" = 0 ] || exit 1
index=$(jq -r '.manifests[0].digest' "$work/image/index.json")
platforms=$(jq -c '[.manifests[].platform | "\(.os)/\(.architecture)"] | sort' "$(blob image "$index")")
[ "$platforms" = '["linux/amd64","linux/arm64"]' ] || { bad "$image.tar: the index has entries for $platforms"; exit 1; }
for architecture in amd64 arm64; do
	manifest=$(blob image "$(jq -r --arg a "$architecture" '.manifests[] | select(.platform.architecture == $a).digest' "$(blob image "$index")")")
	config=$(blob image "$(jq -r .config.digest "$manifest")")
	layer=$(blob image "$(jq -r '.layers[0].digest' "$manifest")")
	jq -e --arg a "$architecture" --arg v "$version" '.architecture == $a and .os == "linux" and .config.User == "65532:65532"
		and .config.Labels["org.opencontainers.image.version"] == $v' "$config" >/dev/null ||
		bad "$image.tar: the configuration for $architecture has another architecture, user or version"
	[ "$(jq -c .rootfs.diff_ids "$config")" = "[\"sha256:$(gzip -dc "$layer" | sha256sum | cut -d ' ' -f 1)\"]" ] ||
		bad "$image.tar: the layer for $architecture is not the one of its configuration"
	# The program in the image is the program in the archive.
	archive=${!architecture}
	cmp -s <(tar -xzOf "$layer" usr/bin/mullion) <(tar -xzOf "$archive.tar.gz" "$archive/mullion") ||
		bad "$image.tar: the program for $architecture is not the one in $archive.tar.gz"
done
unzip -tq "$windows.zip" "$windows/mullion.exe" >/dev/null || bad "$windows.zip does not contain mullion.exe"

# Krew's manifest has the version, and each archive with its checksum.
grep -qx "  version: v$version" mullion.yaml || bad "mullion.yaml is not the manifest of version $version"
for archive in "$amd64.tar.gz" "$arm64.tar.gz" "$windows.zip"; do
	grep -A 1 "/$archive\$" mullion.yaml | grep -qx "      sha256: \"$(sum_of "$archive")\"" ||
		bad "mullion.yaml does not contain $archive with its checksum"
done

# Bills of materials of each program, and of this image.
for bill in "$amd64" "$arm64" "$windows" "$image"; do
	jq -e --arg v "$version" '.bomFormat == "CycloneDX" and .metadata.component.name == "mullion" and .metadata.component.version == $v
		and (.components | length > 0)' "$bill.cdx.json" >/dev/null || bad "$bill.cdx.json is not a CycloneDX bill of materials of mullion $version"
done
jq -e --arg digest "${index#sha256:}" '.metadata.component.hashes[0].content == $digest' "$image.cdx.json" >/dev/null ||
	bad "$image.cdx.json describes another image than $image.tar"

[ "$problems" = 0 ] || exit 1
echo "verify: the $(($(wc -l <"$work/expected") + 1)) files of mullion $version are complete and consistent"
echo "verify: digest of the image: $index"
