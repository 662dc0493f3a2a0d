#!/usr/bin/env bash
# Builds mullion.exe and runs the suite `windows` with Wine: tests/windows/run.sh [TRIAL…]
# It installs Wine and the compiler with apt, and Rust's library with rustup, if they are missing.
set -euo pipefail
cd "$(dirname "$0")/../.."
cargo=${CARGO:-cargo} target=x86_64-pc-windows-gnu
folder=${CARGO_TARGET_DIR:-$PWD/target}/windows
has() { command -v "$1" >/dev/null; }

if ! has wine || ! has x86_64-w64-mingw32-gcc; then
	[ "$(id -u)" = 0 ] && has apt-get || { echo "windows: install Wine and MinGW: apt-get install wine wine64 gcc-mingw-w64-x86-64" >&2; exit 1; }
	export DEBIAN_FRONTEND=noninteractive
	apt-get update -qq && apt-get install --yes --no-install-recommends -qq wine wine64 gcc-mingw-w64-x86-64 >&2
fi
[ -d "$(rustc --print target-libdir --target "$target")" ] || rustup target add "$target"

# The program is not optimized and has no debug information: this tests what it does, not how fast.
CARGO_PROFILE_DEV_DEBUG=0 "$cargo" build --locked --bin mullion --target "$target"
mkdir -p "$folder"
cp "${CARGO_TARGET_DIR:-$PWD/target}/$target/debug/mullion.exe" "$folder/"
x86_64-w64-mingw32-gcc -O1 -shared -o "$folder/bcryptprimitives.dll" tests/windows/prng.c -ladvapi32

# A Windows of its own, without windows on a screen and without dialogs that offer to install Mono and Gecko.
export WINEPREFIX=$folder/wine WINEDEBUG=-all WINEDLLOVERRIDES="mscoree,mshtml=" MULLION_EXE=$folder/mullion.exe
unset DISPLAY
[ -f "$WINEPREFIX/system.reg" ] || wineboot --init >/dev/null 2>&1
"$cargo" test --locked --workspace --test windows -- "$@"
