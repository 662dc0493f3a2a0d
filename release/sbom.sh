#!/usr/bin/env bash
# Prints the CycloneDX bill of materials of the program for one target: release/sbom.sh EMPTY-FOLDER TARGET
set -euo pipefail
cd "$(dirname "$0")/.."
work=$1 target=$2
# cargo-cyclonedx writes its files next to each Cargo.toml, so it is run on a copy.
mkdir -p "$work/tests/cluster/src"
cp Cargo.toml Cargo.lock "$work"
cp -r src crates "$work"
cp tests/cluster/Cargo.toml "$work/tests/cluster"
touch "$work/tests/cluster/src/lib.rs"
cargo cyclonedx --quiet --manifest-path "$work/Cargo.toml" --format json --spec-version 1.5 \
	--target "$target" --no-build-deps --override-filename sbom
# Removes the paths of this machine, and the serial number, which is random.
place=$(cd "$work" && pwd)
jq --sort-keys --arg place "$place" '
	del(.serialNumber)
	| walk(if type == "string" then gsub("(path\\+)?file://" + $place; "mullion") | gsub("[?]download_url=file://[a-z./]*"; "") else . end)' "$work/sbom.json"
