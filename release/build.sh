#!/usr/bin/env bash
# Builds the files of a release: release/build.sh FOLDER HELM. The same commit produces the same bytes on every machine with the
# same versions of Rust, the C compilers, tar, gzip and zip.
set -euo pipefail
cd "$(dirname "$0")/.."
out=$1 helm=$2
cargo=${CARGO:-cargo}
version=$("$cargo" metadata --locked --no-deps --format-version 1 | jq -r '.packages[] | select(.name == "mullion").version')
linux=x86_64-unknown-linux-musl
windows=x86_64-pc-windows-gnu

# The modification time of every packed file: by default the time of the commit.
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

# Both functions pack FOLDER of $work as FILE. Owner, time and permissions are fixed, because those of a checkout depend on the
# user's umask.
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

# The program contains file names of its code, for messages of panics. The folders of this machine are removed from them. The
# flags are passed with --config, which adds them to those of .cargo/config.toml; RUSTFLAGS would replace those.
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
# kubectl finds plugins by these names.
ln -s mullion "$work/$folder/kubectl-mullion"
ln -s mullion "$work/$folder/kubectl_complete-mullion"
cp -r "$work/completions" "$work/man" LICENSE docs/how-to/command-line.md "$work/$folder"
pack_tar "$folder.tar.gz" "$folder"

folder="mullion-$version-$windows"
mkdir "$work/$folder"
install -m 755 "$built/$windows/release/mullion.exe" "$work/$folder/mullion.exe"
cp -r "$work/completions" LICENSE docs/how-to/command-line.md "$work/$folder"
pack_zip "$folder.zip" "$folder"

say "chart"
"$helm" package charts/mullion --destination "$work" >/dev/null
chart=$(cd "$work" && echo mullion-*.tgz)
# Helm writes the current time into the archive, so it is packed again.
tar -C "$work" -xzf "$work/$chart"
pack_tar "$chart" mullion

say "bills of materials"
for target in "$linux" "$windows"; do
	release/sbom.sh "$work/sbom-$target" "$target" >"$out/mullion-$version-$target.cdx.json"
done

(cd "$out" && sha256sum -- * >"$work/SHA256SUMS" && mv "$work/SHA256SUMS" .)
say "in $out:"
(cd "$out" && ls -l)
