#!/usr/bin/env bash
# Writes two OCI image layouts: release/oci.sh FOLDER CRANE HELM REVISION CHART.tgz LAYERS
#   FOLDER/image   an index of the image for each file LAYERS/<architecture>.tar.gz
#   FOLDER/chart   the chart, as `helm push` stores it
# crane and helm write to a registry, so crane's own registry runs in memory on a free port of this machine.
set -euo pipefail
cd "$(dirname "$0")/.."
folder=$1 crane=$2 helm=$3 revision=$4 chart=$5 layers=$6
version=$(tar -xzOf "$chart" mullion/Chart.yaml | sed -n 's/^version: *//p')
work=$(mktemp -d)
# Credentials of the user are not read.
export DOCKER_CONFIG=$work HELM_REGISTRY_CONFIG=$work/registry.json HELM_CACHE_HOME=$work/helm
touch "$work/log"
"$crane" registry serve --address 127.0.0.1:0 >"$work/log" 2>&1 &
server=$!
trap 'kill "$server" 2>/dev/null || true; rm -rf "$work"' EXIT
port=
for _ in $(seq 100); do
	port=$(sed -n 's/.*serving on port \([0-9]*\).*/\1/p' "$work/log")
	[ -z "$port" ] || break
	sleep 0.1
done
[ -n "$port" ] || { echo "release: the registry does not start: $(cat "$work/log")" >&2; exit 1; }
repository=127.0.0.1:$port/mullion
quiet() { "$@" >"$work/output" 2>&1 || { cat "$work/output" >&2; exit 1; }; }

# The last stage of the Dockerfile describes the image. Continuation lines are joined.
stage=$(sed -n '/^FROM scratch$/,$ p' Dockerfile | sed -e ':join' -e '/\\$/ { N; s/\\\n *//; b join' -e '}')
of() { sed -n "s/^$1 //p" <<<"$stage"; }
options=()
while IFS= read -r pair; do options+=(--label "$pair"); done < <(of LABEL | grep -oE '[a-z.]+="[^"]*"' |
	sed -e 's/="\(.*\)"$/=\1/' -e "s/\${VERSION}/$version/; s/\${REVISION}/$revision/")
while IFS= read -r pair; do options+=(--env "$pair"); done < <(of ENV)
for port in $(of EXPOSE); do options+=(--exposed-ports "$port/tcp"); done
options+=(--user "$(of USER)" --entrypoint "$(of ENTRYPOINT | jq -r 'join(",")')")

manifests=()
for layer in "$layers"/*.tar.gz; do
	architecture=$(basename "$layer" .tar.gz)
	quiet "$crane" append --oci-empty-base --new_layer "$layer" --new_tag "$repository:$architecture"
	quiet "$crane" mutate "$repository:$architecture" --tag "$repository:$architecture" --set-platform "linux/$architecture" \
		"${options[@]}"
	manifests+=(--manifest "$repository:$architecture")
done
quiet "$crane" index append "${manifests[@]}" --tag "$repository:$version"
quiet "$crane" pull --format oci "$repository:$version" "$folder/image"

# Helm stores the modification time of the file as the time of creation.
quiet "$helm" push "$chart" "oci://${repository%/*}/charts" --plain-http
quiet "$crane" pull --format oci "${repository%/*}/charts/mullion:$version" "$folder/chart"
