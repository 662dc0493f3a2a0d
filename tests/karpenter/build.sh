#!/usr/bin/env bash
# Builds Karpenter with its KWOK provider from the Go module pinned beside this script, and collects its
# CustomResourceDefinitions. Leaves the program and crds.yaml in target/karpenter, and prints that folder. The first build
# takes about three minutes on two cores. `make karpenter` then runs it beside Mullion.
set -euo pipefail
here=$(cd "$(dirname "${BASH_SOURCE[0]}")" && pwd)
cd "$here/../.."
target=${CARGO_TARGET_DIR:-target}
mkdir -p "$target/karpenter"
folder=$(cd "$target/karpenter" && pwd)
command -v go >/dev/null || { echo "karpenter: Go is missing: install Go 1.26.5 or newer (go.dev/dl)" >&2; exit 1; }

cd "$here"
echo "karpenter: $(go list -m -f '{{.Version}}' sigs.k8s.io/karpenter)" >&2
go build -trimpath -ldflags "-s -w" -o "$folder/karpenter-kwok" sigs.k8s.io/karpenter/kwok
module=$(go list -m -f '{{.Dir}}' sigs.k8s.io/karpenter)
for file in "$module"/kwok/charts/crds/*.yaml "$module"/kwok/apis/crds/*.yaml; do
  echo ---
  cat "$file"
done >"$folder/crds.yaml"
echo "$folder"
