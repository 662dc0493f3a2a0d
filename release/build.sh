#!/usr/bin/env bash
# Makes the files of a release: release/build.sh FOLDER HELM. The same commit gives the same bytes wherever Rust, the C
# compilers and the packers are the same.
set -euo pipefail
cd "$(dirname "$0")/.."
out=$1 helm=$2
cargo=${CARGO:-cargo}
version=$("$cargo" metadata --locked --no-deps --format-version 1 | jq -r '.packages[] | select(.name == "mullion").version')
linux=x86_64-unknown-linux-musl
windows=x86_64-pc-windows-gnu

# The time of everything that is packed: the commit's, unless somebody says another.
if [ -z "${SOURCE_DATE_EPOCH:-}" ]; then
	SOURCE_DATE_EPOCH=$(git log -1 --format=%ct)
fi
export SOURCE_DATE_EPOCH LC_ALL=C TZ=UTC
umask 022

rm -rf "$out"
mkdir -p "$out"
out=$(cd "$out" && pwd)
work=$(mktemp -d)
trap 'rm -rf "$work"' EXIT

say() { echo "release: $*" >&2; }

# Packs FOLDER of $work as FILE, whoever packs and whenever: a checkout has the rights that its owner gives to new files.
pack_tar() {
	chmod -R u=rwX,go=rX "$work/$2"
	tar --sort=name --mtime="@$SOURCE_DATE_EPOCH" --owner=0 --group=0 --numeric-owner --format=gnu \
		-C "$work" -cf - "$2" | gzip -9n >"$out/$1"
}
pack_zip() {
	chmod -R u=rwX,go=rX "$work/$2"
	find "$work/$2" -exec touch -hd "@$SOURCE_DATE_EPOCH" {} +
	(cd "$work" && find "$2" -type f | sort | zip -q -X -9 "$out/$1" -@)
}

# Places in the code stand in the program, for its panics: without the folders that this machine has it in. By --config,
# which adds to the flags of .cargo/config.toml; RUSTFLAGS would take their place.
registry=${CARGO_HOME:-$HOME/.cargo}/registry/src
for target in "$linux" "$windows"; do
	say "building for $target"
	"$cargo" build --locked --release --bin mullion --target "$target" \
		--config "target.$target.rustflags=['--remap-path-prefix=$registry=/registry', '--remap-path-prefix=$PWD=/mullion']"
done
built=${CARGO_TARGET_DIR:-target}

say "completions and manual"
mullion="$built/$linux/release/mullion"
mkdir -p "$work/completions"
"$mullion" completions bash >"$work/completions/mullion.bash"
"$mullion" completions zsh >"$work/completions/_mullion"
"$mullion" completions fish >"$work/completions/mullion.fish"
"$mullion" completions powershell >"$work/completions/mullion.ps1"
"$mullion" completions elvish >"$work/completions/mullion.elv"
"$mullion" man "$work/man" 2>/dev/null

say "packing"
folder="mullion-$version-$linux"
mkdir "$work/$folder"
install -m 755 "$mullion" "$work/$folder/mullion"
# kubectl finds its plugins by these names.
ln -s mullion "$work/$folder/kubectl-mullion"
ln -s mullion "$work/$folder/kubectl_complete-mullion"
cp -r "$work/completions" "$work/man" LICENSE docs/desktop.md "$work/$folder"
pack_tar "$folder.tar.gz" "$folder"

folder="mullion-$version-$windows"
mkdir "$work/$folder"
install -m 755 "$built/$windows/release/mullion.exe" "$work/$folder/mullion.exe"
cp -r "$work/completions" LICENSE docs/desktop.md "$work/$folder"
pack_zip "$folder.zip" "$folder"

say "chart"
"$helm" package charts/mullion --destination "$work" >/dev/null
chart=$(cd "$work" && echo mullion-*.tgz)
# Helm writes the time of day into the archive.
tar -C "$work" -xzf "$work/$chart"
pack_tar "$chart" mullion

say "bills of materials"
for target in "$linux" "$windows"; do
	release/sbom.sh "$work/sbom-$target" "$target" >"$out/mullion-$version-$target.cdx.json"
done

(cd "$out" && sha256sum -- * >"$work/SHA256SUMS" && mv "$work/SHA256SUMS" .)
say "in $out:"
(cd "$out" && ls -l)
