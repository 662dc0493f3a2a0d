#!/usr/bin/env bash
# Prints each tool that `make release` needs and this machine lacks, with the command that installs it.
set -euo pipefail
missing=0
lacks() {
	echo "release: $1 is missing: $2" >&2
	missing=1
}
has() { command -v "$1" >/dev/null; }

has cargo || lacks cargo "install Rust 1.89 or newer (rustup.rs)"
has musl-gcc || lacks musl-gcc "apt-get install musl-tools"
has x86_64-w64-mingw32-gcc || lacks x86_64-w64-mingw32-gcc "apt-get install gcc-mingw-w64-x86-64"
has zip || lacks zip "apt-get install zip"
has unzip || lacks unzip "apt-get install unzip"
has readelf || lacks readelf "apt-get install binutils"
has jq || lacks jq "apt-get install jq"
has cargo-cyclonedx || lacks cargo-cyclonedx "cargo install --locked cargo-cyclonedx"
if has cargo; then
	libraries="$(rustc --print sysroot)/lib/rustlib"
	for target in x86_64-unknown-linux-musl x86_64-pc-windows-gnu; do
		[ -d "$libraries/$target" ] || lacks "Rust's library for $target" "rustup target add $target"
	done
fi
exit "$missing"
