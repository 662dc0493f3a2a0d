#!/usr/bin/env bash
# Builds what `make demo` and `make up` run: the tools of a cluster, and beside them target/demo/mullion and mullion-demo.
# Prints the folder with the tools as its only line on stdout.
set -euo pipefail
cd "$(dirname "${BASH_SOURCE[0]}")/../.."
folder=$(mktemp)
trap 'rm -f "$folder"' EXIT
# Cargo's progress bar and a line that is written again and again do not fit on one terminal. Through the pipe, the tools print lines.
tests/cluster/tools/build.sh --cluster >"$folder" 2> >(cat >&2) &
tools=$!
# One command for both programs: their dependencies have the same features then, and are compiled once.
"${CARGO:-cargo}" build --locked --profile demo -p mullion -p mullion-cluster --bin mullion --bin mullion-demo >&2 || {
  status=$?
  kill "$tools" 2>/dev/null || true
  exit "$status"
}
wait "$tools"
cat "$folder"
