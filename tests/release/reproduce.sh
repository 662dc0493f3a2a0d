#!/usr/bin/env bash
# Builds the release of the current commit again and compares it with FOLDER: tests/release/reproduce.sh FOLDER TOOLS
# The second build has its own clone and its own folder for compiled code, so nothing is reused and no path is the same.
set -euo pipefail
cd "$(dirname "$0")/../.."
folder=$(cd "$1" && pwd)
tools=$2
[ -f "$folder/SHA256SUMS" ] || { echo "reproduce: $folder contains no SHA256SUMS: run make release first" >&2; exit 1; }
if [ -n "$(git status --porcelain)" ]; then
	echo "reproduce: this checkout has changes that are not committed, and the second build is made from the commit: commit them" >&2
	exit 1
fi
work=$(mktemp -d -p "${TMPDIR:-/tmp}" mullion-reproduce.XXXXXX)
trap 'rm -rf "$work"' EXIT
git clone --quiet . "$work/clone"
CARGO_TARGET_DIR=$work/target "$work/clone/release/build.sh" "$work/files" "$tools"
if ! diff "$folder/SHA256SUMS" "$work/files/SHA256SUMS"; then
	echo "reproduce: the files above (checksums of $folder with <, of the second build with >) differ" >&2
	exit 1
fi
echo "reproduce: $(wc -l <"$folder/SHA256SUMS") files are the same in both builds"
