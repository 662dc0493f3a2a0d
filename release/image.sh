#!/usr/bin/env bash
# Builds the container image for the architecture of this machine: release/image.sh [NAME:TAG].
# FROM=host: builds the program on this machine and copies it into the image. No base image is pulled.
# BUILD_ARGS contains more arguments for the builder.
set -euo pipefail
cd "$(dirname "$0")/.."
version=$(sed -n '/^\[workspace.package\]/,/^$/s/^version = "\(.*\)"/\1/p' Cargo.toml)
image=${1:-mullion:$version}
revision=$(git describe --always --dirty --abbrev=40 --exclude '*' 2>/dev/null || true)

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

context=.
case ${FROM:-} in
	"") ;;
	host)
		target=$(uname -m)-unknown-linux-musl
		[ -d "$(rustc --print sysroot)/lib/rustlib/$target" ] || {
			echo "image: Rust's library for $target is missing: rustup target add $target" >&2
			exit 1
		}
		command -v musl-gcc >/dev/null || { echo "image: musl-gcc is missing: apt-get install musl-tools" >&2; exit 1; }
		program=$(release/programs.sh "$target")
		context=$(mktemp -d)
		trap 'rm -rf "$context"' EXIT
		release/image-root.sh "$context/image" "$program"
		# The last stage alone, with the files of this machine instead of those of the stage `build`.
		sed -n '/^FROM scratch$/,$ s| --from=build /image | image |; /^FROM scratch$/,$ p' Dockerfile >"$context/Dockerfile"
		;;
	*)
		echo "image: FROM=$FROM is unknown: use FROM=host, or leave it out to build in the image that the Dockerfile names" >&2
		exit 1
		;;
esac
# shellcheck disable=SC2086
"${build[@]}" ${BUILD_ARGS:-} --build-arg "VERSION=$version" --build-arg "REVISION=$revision" --tag "$image" "$context"
case ${build[0]} in
	buildah) architecture=$(buildah inspect --type image --format '{{.OCIv1.Architecture}}' "$image") ;;
	*) architecture=$("${build[0]}" image inspect --format '{{.Architecture}}' "$image") ;;
esac
echo "image: built $image for $architecture with ${build[0]}; push it, and install the chart with" \
	"--set image.repository=… --set image.tag=… --set image.architecture=$architecture" >&2
