#!/usr/bin/env bash
# Prints each tool that `make release` needs and this machine lacks, with the command that installs it: release/needs.sh
# --install: runs these commands, on Debian and as root.
set -euo pipefail
commands=()
lacks() {
	echo "release: $1 is missing: $2" >&2
	commands+=("$2")
}
has() { command -v "$1" >/dev/null; }

[ "$(uname -sm)" = "Linux x86_64" ] || { echo "release: this machine is $(uname -sm): use Linux on x86_64" >&2; exit 1; }
has cargo || lacks cargo "install Rust 1.89 or newer (rustup.rs)"
has gcc || lacks gcc "apt-get install gcc libc6-dev"
has musl-gcc || lacks musl-gcc "apt-get install musl-tools"
has aarch64-linux-gnu-gcc || lacks aarch64-linux-gnu-gcc "apt-get install gcc-aarch64-linux-gnu"
[ -f /usr/include/aarch64-linux-musl/stdio.h ] || lacks "musl's header files for arm64" \
	"dpkg --add-architecture arm64 && apt-get update && apt-get install musl-dev:arm64"
has x86_64-w64-mingw32-gcc || lacks x86_64-w64-mingw32-gcc "apt-get install gcc-mingw-w64-x86-64"
has qemu-aarch64-static || lacks qemu-aarch64-static "apt-get install qemu-user-static"
has git || lacks git "apt-get install git"
has zip || lacks zip "apt-get install zip"
has unzip || lacks unzip "apt-get install unzip"
has readelf || lacks readelf "apt-get install binutils"
has jq || lacks jq "apt-get install jq"
has dpkg-query || lacks dpkg-query "use Debian or a distribution that is based on it"
[ -s /etc/ssl/certs/ca-certificates.crt ] || lacks "the list of root certificates" "apt-get install ca-certificates"
has cargo-cyclonedx || lacks cargo-cyclonedx "cargo install --locked cargo-cyclonedx"
if has cargo; then
	libraries="$(rustc --print sysroot)/lib/rustlib"
	for target in x86_64-unknown-linux-musl aarch64-unknown-linux-musl x86_64-pc-windows-gnu; do
		[ -d "$libraries/$target" ] || lacks "Rust's library for $target" "rustup target add $target"
	done
fi
[ "${#commands[@]}" -gt 0 ] || exit 0
[ "${1:-}" = --install ] || exit 1

export DEBIAN_FRONTEND=noninteractive
apt-get update
for command in "${commands[@]}"; do
	case $command in
		dpkg* | apt-get* | cargo* | rustup*) ;;
		*) echo "release: cannot install this: $command" >&2; exit 1 ;;
	esac
	echo "release: $command" >&2
	bash -c "${command//apt-get install/apt-get install --yes --no-install-recommends}"
done
