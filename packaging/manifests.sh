#!/usr/bin/env bash
# Writes the objects of the chart as plain manifests, for people without Helm: packaging/manifests.sh FOLDER HELM [VALUES]…
#   REPOSITORY  repository of the image, unless a values file sets it
#   POLICIES    shipped policies, such as audit, unless a values file sets others
#   NAMESPACE   namespace of Mullion; default: mullion-system
# FOLDER then has mullion.yaml with all objects, kustomization.yaml, which makes it a kustomize base, and withdraw.yaml with the Job
# that removes Mullion from the nodes.
set -euo pipefail
out=$1 helm=$2
shift 2
namespace=${NAMESPACE:-mullion-system}
chart=$(cd "$(dirname "$0")/../charts/mullion" && pwd)
arguments=(template mullion "$chart" --namespace "$namespace")
for values in "$@"; do arguments+=(--values "$values"); done
if [ -n "${REPOSITORY:-}" ]; then arguments+=(--set-string "image.repository=$REPOSITORY"); fi
if [ -n "${POLICIES:-}" ]; then arguments+=(--set-string "policies.shipped=$POLICIES"); fi

work=$(mktemp -d)
trap 'rm -rf "$work"' EXIT
"$helm" "${arguments[@]}" --no-hooks >"$work/mullion.yaml"
cat >"$work/kustomization.yaml" <<EOF
# Mullion in namespace $namespace, which must exist. Do not set another one with \`namespace\`: arguments and policies contain it.
apiVersion: kustomize.config.k8s.io/v1beta1
kind: Kustomization
resources: [mullion.yaml]
EOF
# These objects are hooks of Helm. Without Helm their annotations have no effect. With withdraw.enabled: false there are none.
if "$helm" "${arguments[@]}" | grep -q '^# Source: mullion/templates/withdraw/'; then
	"$helm" "${arguments[@]}" --show-only 'templates/withdraw/*.yaml' >"$work/withdraw.yaml"
fi
rm -rf "$out"
mkdir -p "$out"
mv "$work"/*.yaml "$out"
