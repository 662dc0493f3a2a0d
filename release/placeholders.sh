#!/usr/bin/env bash
# Fails if a release would contain a placeholder, and prints each one: release/placeholders.sh
# ALLOW_PLACEHOLDERS=1: prints them and continues, to try a release that is not published.
set -euo pipefail
cd "$(dirname "$0")/.."
found=0
report() {
	echo "release: $*" >&2
	found=1
}
# Comments may contain the word.
while IFS= read -r place; do report "$place: replace the placeholder"; done < <({
	grep -nHF example.invalid README.md docs/how-to/command-line.md charts/mullion/Chart.yaml Cargo.toml .github/ISSUE_TEMPLATE/config.yml || true
	if [ -d packaging ]; then grep -rnHF --include='*.yaml' --include='*.json' example.invalid packaging || true; fi
} | grep -vE '^[^:]+:[0-9]+:[[:space:]]*#')
for key in home sources maintainers; do
	grep -q "^$key:" charts/mullion/Chart.yaml || report "charts/mullion/Chart.yaml: $key is missing: add it"
done
grep -q '^repository\b' Cargo.toml || report "Cargo.toml: repository is missing: add the address of the repository"
[ "$found" = 1 ] || exit 0
if [ -n "${ALLOW_PLACEHOLDERS:-}" ]; then
	echo "release: ALLOW_PLACEHOLDERS is set, so the release is built with these placeholders. Do not publish it." >&2
	exit 0
fi
echo "release: a release must not contain placeholders. Fill them in, or set ALLOW_PLACEHOLDERS=1 to try a release." >&2
exit 1
