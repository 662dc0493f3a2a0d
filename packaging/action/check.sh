#!/usr/bin/env bash
# Step of action.yml: runs `mullion check`. It prints the findings as annotations, and with SARIF it also writes them to a file.
#   FILES, POLICIES              paths, one per line
#   SNAPSHOT, SARIF              paths; may be empty
#   FAIL_ON                      deny or warn
set -euo pipefail
: "${FILES?}" "${POLICIES?}"

arguments=(--fail-on "$FAIL_ON")
while IFS= read -r line; do
	[ -z "$line" ] || arguments+=(--policies "$line")
done <<<"$POLICIES"
[ -z "$SNAPSHOT" ] || arguments+=(--snapshot "$SNAPSHOT")
found=0
arguments+=(--)
while IFS= read -r line; do
	[ -n "$line" ] || continue
	arguments+=("$line")
	found=1
done <<<"$FILES"
if [ "$found" = 0 ]; then
	echo "::error title=Mullion::files is empty: set it to the files and directories with manifests, one per line"
	exit 2
fi

code=0
mullion check --output github "${arguments[@]}" || code=$?
echo "exit-code=$code" >>"$GITHUB_OUTPUT"
# Exit code 2 means that no complete result exists.
if [ -n "$SARIF" ] && [ "$code" != 2 ]; then
	mullion check --output sarif "${arguments[@]}" >"$SARIF" 2>/dev/null || [ $? = 1 ]
fi
exit "$code"
