#!/usr/bin/env bash
# Builds Helm 3 from the Go modules pinned in go.mod and go.sum, once per version, and prints the path of the program.
# Everything else is printed on stderr. HELM3: if set, the path of a Helm 3 that exists, and nothing is built.
set -euo pipefail

here=$(cd "$(dirname "${BASH_SOURCE[0]}")" && pwd)
repository=$(cd "$here/../../../.." && pwd)
if [[ -n ${HELM3:-} ]]; then
  [[ -x $HELM3 ]] || { printf 'helm3: HELM3=%s is no program\n' "$HELM3" >&2; exit 1; }
  printf '%s\n' "$HELM3"
  exit
fi
command -v go >/dev/null || { echo 'helm3: Go is missing: install Go 1.26 or newer (go.dev/dl)' >&2; exit 1; }
cd "$here"
version=$(go list -m -f '{{.Version}}' helm.sh/helm/v3)
program=$repository/.tools/helm3-${version#v}/helm
if [[ ! -x $program ]]; then
  printf 'helm3: building Helm %s, which takes a few minutes the first time\n' "$version" >&2
  # The Kubernetes version that `helm template` assumes, as in Helm's Makefile: that of its client library.
  minor=$(go list -m -f '{{.Version}}' k8s.io/client-go | cut -d . -f 2)
  chart=helm.sh/helm/v3/pkg/chartutil lint=helm.sh/helm/v3/pkg/lint/rules
  flags="-s -w -X helm.sh/helm/v3/internal/version.version=$version"
  flags+=" -X $lint.k8sVersionMajor=1 -X $lint.k8sVersionMinor=$minor"
  flags+=" -X $chart.k8sVersionMajor=1 -X $chart.k8sVersionMinor=$minor"
  go build -trimpath -ldflags "$flags" -o "$program.$$" helm.sh/helm/v3/cmd/helm >&2
  mv "$program.$$" "$program"
fi
printf '%s\n' "$program"
