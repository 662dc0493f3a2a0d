#!/usr/bin/env bash
# Builds the optimized program for each TARGET: release/programs.sh TARGET…
# Prints the path of each program on stdout, in the order of the targets. The program has the same bytes in every checkout.
set -euo pipefail
cd "$(dirname "$0")/.."
cargo=${CARGO:-cargo}

# The program contains file names of its code, for messages of panics. The folders of this machine are removed from them. The
# flags are passed with --config, which adds them to those of .cargo/config.toml; RUSTFLAGS would replace those.
remap="'--remap-path-prefix=${CARGO_HOME:-$HOME/.cargo}/registry/src=/registry', '--remap-path-prefix=$PWD=/mullion'"

for target in "$@"; do
	flags=$remap options=()
	if [ "$target" = aarch64-unknown-linux-musl ] && [ "$(uname -m)" != aarch64 ]; then
		# GCC compiles the C code of the cryptography with musl's header files. Rust's own linker links, because Debian has no
		# musl-gcc for another architecture. The flag is lld's name for what .cargo/config.toml sets for x86_64.
		compiler=aarch64-linux-gnu-gcc
		export CC_aarch64_unknown_linux_musl=$compiler AR_aarch64_unknown_linux_musl=aarch64-linux-gnu-ar
		CFLAGS_aarch64_unknown_linux_musl="-nostdinc -isystem $("$compiler" -print-file-name=include) -isystem /usr/include/aarch64-linux-musl"
		export CFLAGS_aarch64_unknown_linux_musl
		options=(--config "target.$target.linker='rust-lld'")
		flags="'-Clink-arg=--pack-dyn-relocs=relr', $flags"
	fi
	echo "release: building for $target" >&2
	"$cargo" build --locked --release --bin mullion --target "$target" \
		"${options[@]}" --config "target.$target.rustflags=[$flags]" >&2
	program=${CARGO_TARGET_DIR:-$PWD/target}/$target/release/mullion
	case $target in *windows*) program=$program.exe ;; esac
	echo "$program"
done
