#!/usr/bin/env bash
# Builds the container image: release/image.sh [NAME:TAG]. BUILD_ARGS contains more
# arguments for the builder.
set -euo pipefail
cd "$(dirname "$0")/.."
version=$(sed -n '/^\[workspace.package\]/,/^$/s/^version = "\(.*\)"/\1/p' Cargo.toml)
image=${1:-mullion:$version}
revision=$(git rev-parse HEAD 2>/dev/null || true)

# `docker version` fails if the daemon does not run.
if docker version >/dev/null 2>&1; then
	build=(docker build)
elif command -v podman >/dev/null; then
	build=(podman build --format docker)
elif command -v buildah >/dev/null; then
	build=(buildah build --format docker)
else
	echo "image: none of docker (with its daemon running), podman and buildah is here: apt-get install buildah" >&2
	exit 1
fi
# shellcheck disable=SC2086
"${build[@]}" ${BUILD_ARGS:-} --build-arg "VERSION=$version" --build-arg "REVISION=$revision" --tag "$image" .
case ${build[0]} in
	buildah) architecture=$(buildah inspect --type image --format '{{.OCIv1.Architecture}}' "$image") ;;
	*) architecture=$("${build[0]}" image inspect --format '{{.Architecture}}' "$image") ;;
esac
echo "image: built $image for $architecture with ${build[0]}; push it, and install the chart with" \
	"--set image.repository=… --set image.tag=… --set image.architecture=$architecture" >&2
