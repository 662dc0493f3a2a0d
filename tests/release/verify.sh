#!/usr/bin/env bash
# Holds the files of a finished `make release` against what they promise: tests/release/verify.sh FOLDER HELM
set -euo pipefail
cd "$(dirname "$0")/../.."
repository=$PWD
folder=$(cd "$1" && pwd)
helm=$2
limit=$((20 * 1000 * 1000))
failed=0
bad() {
	echo "release: $*" >&2
	failed=1
}
work=$(mktemp -d)
trap 'rm -rf "$work"' EXIT
export LC_ALL=C

metadata=$(cargo metadata --locked --no-deps --format-version 1)
version=$(jq -r '.packages[] | select(.name == "mullion").version' <<<"$metadata")
linux="mullion-$version-x86_64-unknown-linux-musl"
windows="mullion-$version-x86_64-pc-windows-gnu"
cd "$folder"

# Every file, no other, each with its sum.
expected=$(printf '%s\n' SHA256SUMS "mullion-$version.tgz" "$linux".{cdx.json,tar.gz} "$windows".{cdx.json,zip} | sort)
other=$(find . -mindepth 1 -printf '%P\n' | sort | diff - <(echo "$expected")) || bad "other files than expected: $other"
sha256sum --quiet --check SHA256SUMS || bad "a checksum is wrong"
[ "$(wc -l <SHA256SUMS)" = "$(($(wc -l <<<"$expected") - 1))" ] || bad "not every file has its sum"

# Linux: static, small, and it runs.
tar -C "$work" -xzf "$linux.tar.gz"
program="$work/$linux/mullion"
readelf -ldW "$program" >"$work/elf"
if grep -qE 'INTERP|NEEDED' "$work/elf"; then bad "$linux: mullion is not static"; fi
[ "$(stat -c %s "$program")" -lt "$limit" ] || bad "$linux: mullion has $(stat -c %s "$program") bytes"
said=$(env -i "$program" --version)
[ "$said" = "mullion $version" ] || bad "mullion --version says $said"
said=$(env -i "$work/$linux/kubectl-mullion" check --help) || true
[[ $said == *"Usage: kubectl mullion check "* ]] || bad "kubectl-mullion is not kubectl's plugin"
said=$(env -i "$work/$linux/kubectl_complete-mullion" expl) || true
[[ $said == explain* ]] || bad "kubectl_complete-mullion completes nothing"
for file in LICENSE command-line.md completions/{mullion.bash,_mullion,mullion.fish,mullion.ps1,mullion.elv} man/mullion{,-check,-policy-test}.1; do
	[ -s "$work/$linux/$file" ] || bad "$linux: $file is missing or empty"
done
bash -n "$work/$linux/completions/mullion.bash" || bad "bash does not read its completions"
for shell in zsh:_mullion fish:mullion.fish; do
	if command -v "${shell%%:*}" >/dev/null; then
		"${shell%%:*}" -n "$work/$linux/completions/${shell#*:}" || bad "${shell%%:*} does not read its completions"
	fi
done

# Windows: an x86-64 console program that needs nothing but Windows.
(cd "$work" && unzip -q "$folder/$windows.zip")
program="$work/$windows/mullion.exe"
[ "$(stat -c %s "$program")" -lt "$limit" ] || bad "$windows: mullion.exe has $(stat -c %s "$program") bytes"
bytes() { od -An -v -t "u$2" -j "$1" -N "$2" "$program" | tr -d ' '; }
header=$(bytes 60 4)
[ "$(head -c 2 "$program") $(bytes "$header" 4)" = "MZ 17744" ] || bad "$windows: mullion.exe is no Windows program"
[ "$(bytes $((header + 4)) 2)" = 34404 ] || bad "$windows: mullion.exe is not for x86-64"
[ "$(bytes $((header + 92)) 2)" = 3 ] || bad "$windows: mullion.exe is no console program"
x86_64-w64-mingw32-objdump -p "$program" | sed -n 's/.*DLL Name: //p' >"$work/dlls"
grep -qi '^kernel32.dll$' "$work/dlls" || bad "$windows: the list of DLLs makes no sense"
if grep -iE '^lib|msys|cygwin|mingw' "$work/dlls"; then bad "$windows: mullion.exe needs these DLLs, which Windows does not have"; fi

# Neither says where it was built.
for program in "$work/$linux/mullion" "$work/$windows/mullion.exe"; do
	for place in "$repository" "${CARGO_HOME:-$HOME/.cargo}"; do
		if grep -qaF "$place/" "$program"; then bad "${program##*/} has $place in it"; fi
	done
done

# Bills of materials: CycloneDX, and every crate that cargo links in.
for target in "$linux" "$windows"; do
	bill="$target.cdx.json"
	jq -e '.bomFormat == "CycloneDX" and .specVersion == "1.5" and .metadata.component.name == "mullion"' "$bill" >/dev/null ||
		bad "$bill: no CycloneDX 1.5 of mullion"
	jq -e 'all(.components[]; .name and .version and .purl and (.licenses | length > 0))' "$bill" >/dev/null ||
		bad "$bill: a crate without version, purl or license"
	jq -r '.components[] | "\(.name) \(.version)"' "$bill" | sort -u >"$work/listed"
	(cd "$repository" && cargo tree --locked --target "${target#mullion-"$version"-}" --edges normal,no-proc-macro --prefix none --format '{p}') |
		sed -E 's/ \((proc-macro|\*|\/.*)\)//g; s/ v/ /' | grep -v '^mullion ' | sort -u >"$work/linked"
	comm -13 "$work/listed" "$work/linked" >"$work/unlisted"
	[ ! -s "$work/unlisted" ] || bad "$bill lacks $(tr '\n' ',' <"$work/unlisted")"
	grep -q '^aws-lc-sys ' "$work/listed" || bad "$bill lacks aws-lc-sys"
	if grep -qE 'file://|"/(home|root|tmp)/' "$bill"; then bad "$bill has a path of the machine it was made on"; fi
done

# The chart: Helm takes it, and it is this version.
[ "$("$helm" show chart "mullion-$version.tgz" | sed -n 's/^appVersion: //p' | tr -d '"')" = "$version" ] || bad "the chart's appVersion is not $version"
"$helm" template mullion "mullion-$version.tgz" --namespace mullion-system >/dev/null || bad "the chart does not render"

# Nothing of the time and the machine of packing.
for archive in *.tar.gz *.tgz; do
	[ "$(tar -tzvf "$archive" --numeric-owner --full-time | awk '{print $2, $4, $5}' | sort -u | wc -l)" = 1 ] ||
		bad "$archive: owners or times differ"
	tar -tzf "$archive" | sed 's|/$||' | sort -c || bad "$archive is not sorted"
done

[ "$failed" = 0 ] && echo "release: $(wc -l <<<"$expected") files in $folder keep what they promise"
exit "$failed"
