#!/usr/bin/env bash
# Builds Flux's helm-controller and kustomize-controller from the Go modules pinned in the folders beside this script, and
# collects their CustomResourceDefinitions. Leaves both programs and crds.yaml in target/flux, and prints that folder. The
# first build takes about ten minutes on two cores. `make flux` then runs them beside Mullion.
set -euo pipefail
here=$(cd "$(dirname "${BASH_SOURCE[0]}")" && pwd)
cd "$here/../.."
target=${CARGO_TARGET_DIR:-target}
mkdir -p "$target/flux"
folder=$(cd "$target/flux" && pwd)
command -v go >/dev/null || { echo "flux: Go is missing: install Go 1.26 or newer (go.dev/dl)" >&2; exit 1; }

# crds MODULE VERSION: the CustomResourceDefinitions of a module.
crds() {
  local found
  found=$(cd "$here/helm-controller" && GOFLAGS=-mod=mod go mod download -json "github.com/fluxcd/$1@$2" | sed -n 's/^\t"Dir": "\(.*\)",$/\1/p')
  for file in "$found"/config/crd/bases/*.yaml; do
    echo ---
    cat "$file"
  done
}
# version FOLDER MODULE: the version of a module in a go.mod.
version() { (cd "$here/$1" && go list -m -f '{{.Version}}' "github.com/fluxcd/$2"); }

for controller in helm-controller kustomize-controller; do
  echo "flux: $controller $(version "$controller" "$controller")" >&2
  (cd "$here/$controller" && go build -trimpath -ldflags "-s -w" -o "$folder/$controller" "github.com/fluxcd/$controller")
done
{
  crds helm-controller "$(version helm-controller helm-controller)"
  crds kustomize-controller "$(version kustomize-controller kustomize-controller)"
  # Both controllers watch the kinds of the source-controller, which does not run.
  crds source-controller "$(version helm-controller source-controller/api)"
} >"$folder/crds.yaml"
echo "$folder"
