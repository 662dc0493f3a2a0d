#!/usr/bin/env bash
# Builds the next release of the tests of skew: this tree with a new minor version, one additional rule and one additional
# policy key (next.patch). Leaves the program and the chart as target/skew/mullion and target/skew/chart, and prints that
# folder. `make skew` then runs both releases in one cluster. If next.patch no longer applies, write it again: it consists of
# the differences of a copy of this tree.
set -euo pipefail
cd "$(dirname "${BASH_SOURCE[0]}")/../.."
cargo=${CARGO:-cargo}
target=$(mkdir -p "${CARGO_TARGET_DIR:-target}" && cd "${CARGO_TARGET_DIR:-target}" && pwd)
folder=$target/skew tree=$target/skew/tree

version=$(sed -n '/^\[workspace.package\]/,/^$/s/^version = "\(.*\)"/\1/p' Cargo.toml)
IFS=. read -r major minor _ <<<"$version"
next=$major.$((minor + 1)).0

# The copy keeps modification times, so that a second build compiles only what has changed.
rm -rf "$tree"
mkdir -p "$tree"
while IFS= read -r -d '' file; do
  # A deleted file is still listed.
  [[ -f $file ]] && printf '%s\0' "$file"
done < <(git ls-files -z --cached --others --exclude-standard) | tar --null --files-from=- -cf - | tar -xf - -C "$tree"
cd "$tree"
patch --quiet --strip 1 <tests/skew/next.patch || { echo "skew: tests/skew/next.patch does not apply to this tree" >&2; exit 1; }
sed -i "/^\[workspace.package\]/,/^\$/s/^version = .*/version = \"$next\"/" Cargo.toml
sed -i "s/^\(version\|appVersion\): .*/\1: $next/" charts/mullion/Chart.yaml
sed -i "s/since: \"NEXT\"/since: \"${next%.0}\"/" crates/engine/src/rules/next_release.rs
# The lock file changes by the versions of the workspace only.
"$cargo" build --quiet --offline --workspace --bin mullion --target-dir "$folder/build" >&2
rm -rf "$folder/chart"
cp -r charts/mullion "$folder/chart"
cp "$folder/build/debug/mullion" "$folder/mullion.new"
mv "$folder/mullion.new" "$folder/mullion"
"$folder/mullion" version | head -n 1 >&2
echo "$folder"
