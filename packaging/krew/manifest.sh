#!/usr/bin/env bash
# Prints Krew's manifest for the files of a release: packaging/krew/manifest.sh FOLDER [ADDRESS]
# FOLDER has the archives and SHA256SUMS. ADDRESS is the address of that folder for downloads; without it, the one in mullion.yaml.
set -euo pipefail
here=$(cd "$(dirname "$0")" && pwd)
folder=$1 address=${2:-}
version=$(sed -n '/^\[workspace.package\]/,/^$/s/^version = "\(.*\)"/\1/p' "$here/../../Cargo.toml")
awk -v version="$version" -v address="$address" '
	NR == FNR { sum[$2] = $1; next }
	{ gsub(/0\.0\.0/, version) }
	$1 == "uri:" {
		file = $2
		sub(/.*\//, "", file)
		if (!(file in sum)) {
			printf "manifest: SHA256SUMS does not list %s\n", file > "/dev/stderr"
			exit 1
		}
		if (address != "") sub(/https:.*\//, address "/")
	}
	$1 == "sha256:" { sub(/"0+"/, "\"" sum[file] "\"") }
	!/^#/' "$folder/SHA256SUMS" "$here/mullion.yaml"
