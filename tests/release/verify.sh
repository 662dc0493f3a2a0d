#!/usr/bin/env bash
# Tests the files of a finished `make release`: tests/release/verify.sh FOLDER HELM
# It runs what users run, release/verify.sh, and tests more: how the programs are linked, that they and the images run, what the
# bills of materials list, and that the archives do not depend on the machine.
set -euo pipefail
cd "$(dirname "$0")/../.."
repository=$PWD
folder=$(cd "$1" && pwd)
helm=$2
# The limit of a program and of an unpacked image in bytes. An image contains little else.
limit=$((25 * 1000 * 1000))
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
amd64="mullion-$version-x86_64-unknown-linux-musl"
arm64="mullion-$version-aarch64-unknown-linux-musl"
windows="mullion-$version-x86_64-pc-windows-gnu"
release/verify.sh "$folder" >"$work/verified" || bad "release/verify.sh fails"
grep -q "of mullion $version are complete" "$work/verified" || bad "release/verify.sh verified another version than $version"
cd "$folder"

emulator=$(command -v qemu-aarch64-static)
# Runs a program for ARCHITECTURE: run ARCHITECTURE COMMAND…
run() {
	local architecture=$1
	shift
	if [ "$architecture" = arm64 ]; then env -i "$emulator" "$@"; else env -i "$@"; fi
}
# The path of chroot, because `env -i` removes PATH, and users other than root may not have the folder in it.
chroot=$(PATH=$PATH:/usr/sbin:/sbin command -v chroot)
# A container of a CI system has root, but no user namespaces.
in_root() { if [ "$(id -u)" = 0 ]; then env -i "$chroot" "$@"; else env -i unshare --user --map-root-user "$chroot" "$@"; fi; }

# Linux: static, small, for the right processor, and it runs.
for architecture in amd64 arm64; do
	linux=${!architecture}
	tar -C "$work" -xzf "$linux.tar.gz"
	program="$work/$linux/mullion"
	readelf -hldW "$program" >"$work/elf"
	case $architecture in amd64) machine="X86-64" ;; arm64) machine="AArch64" ;; esac
	grep -q "Machine:.*$machine" "$work/elf" || bad "$linux: mullion is not for $machine"
	if grep -qE 'INTERP|NEEDED' "$work/elf"; then bad "$linux: mullion is not static"; fi
	[ "$(stat -c %s "$program")" -lt "$limit" ] || bad "$linux: mullion has $(stat -c %s "$program") bytes"
	said=$(run "$architecture" "$program" --version) || true
	[ "$said" = "mullion $version" ] || bad "$linux: mullion --version prints $said"
	# The exit code and the findings of a command that reads manifests.
	run "$architecture" "$program" check --output json "$repository/examples/windows-bad-pod.yaml" >"$work/findings-$architecture" || status=$?
	[ "${status:-0}" = 1 ] || bad "$linux: mullion check exits with ${status:-0} for a pod with errors"
	unset status
	cmp -s "$work/findings-amd64" "$work/findings-$architecture" || bad "$linux: mullion check prints other findings than on amd64"
done
linux=$amd64
said=$(env -i "$work/$linux/kubectl-mullion" check --help) || true
[[ $said == *"Usage: kubectl mullion check "* ]] || bad "kubectl-mullion is not kubectl's plugin"
said=$(env -i "$work/$linux/kubectl_complete-mullion" expl) || true
[[ $said == explain* ]] || bad "kubectl_complete-mullion completes nothing"
for linux in "$amd64" "$arm64"; do
	for file in LICENSE command-line.md completions/{mullion.bash,_mullion,mullion.fish,mullion.ps1,mullion.elv} man/mullion{,-check,-policy-test}.1; do
		[ -s "$work/$linux/$file" ] || bad "$linux: $file is missing or empty"
	done
done
linux=$amd64
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
[ "$(head -c 2 "$program") $(bytes "$header" 4)" = "MZ 17744" ] || bad "$windows: mullion.exe is not a Windows program"
[ "$(bytes $((header + 4)) 2)" = 34404 ] || bad "$windows: mullion.exe is not for x86-64"
[ "$(bytes $((header + 92)) 2)" = 3 ] || bad "$windows: mullion.exe is not a console program"
x86_64-w64-mingw32-objdump -p "$program" | sed -n 's/.*DLL Name: //p' >"$work/dlls"
grep -qi '^kernel32.dll$' "$work/dlls" || bad "$windows: the list of DLLs makes no sense"
if grep -iE '^lib|msys|cygwin|mingw' "$work/dlls"; then bad "$windows: mullion.exe needs these DLLs, which Windows does not have"; fi

# No program contains the path of the folder in which it was built.
for program in "$work/$amd64/mullion" "$work/$arm64/mullion" "$work/$windows/mullion.exe"; do
	for place in "$repository" "${CARGO_HOME:-$HOME/.cargo}"; do
		if grep -qaF "$place/" "$program"; then bad "${program#"$work/"} contains $place"; fi
	done
done

# Bills of materials: CycloneDX, and every crate that cargo links in.
for target in "$amd64" "$arm64" "$windows"; do
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

# The image: the program runs in its file system, which contains nothing but it, the license and the root certificates.
mkdir "$work/image"
tar -C "$work/image" -xf "mullion-$version-image.tar"
blob() { echo "$work/image/blobs/sha256/${1#sha256:}"; }
index=$(blob "$(jq -r '.manifests[0].digest' "$work/image/index.json")")
for architecture in amd64 arm64; do
	manifest=$(blob "$(jq -r --arg a "$architecture" '.manifests[] | select(.platform.architecture == $a).digest' "$index")")
	jq -e '.config | .Entrypoint == ["/usr/bin/mullion"] and .Env == ["MIMALLOC_ALLOW_THP=0"] and (.ExposedPorts | keys == ["8080/tcp", "9443/tcp"])
		and .Labels["org.opencontainers.image.title"] == "Mullion" and (.Labels["org.opencontainers.image.revision"] | test("^[0-9a-f]{40}"))' \
		"$(blob "$(jq -r .config.digest "$manifest")")" >/dev/null || bad "image for $architecture: the configuration is not that of the Dockerfile"
	root="$work/root-$architecture"
	mkdir "$root"
	tar -C "$root" -xzf "$(blob "$(jq -r '.layers[0].digest' "$manifest")")"
	content=$(cd "$root" && find . -type f -printf '%P %m\n' | sort | tr '\n' ' ')
	[ "$content" = "LICENSE 644 etc/ssl/certs/ca-certificates.crt 644 usr/bin/mullion 755 " ] || bad "image for $architecture contains $content"
	size=$(find "$root" -type f -printf '%s\n' | awk '{ sum += $1 } END { print sum }')
	[ "$size" -le "$limit" ] || bad "image for $architecture has $size bytes"
	grep -q 'BEGIN CERTIFICATE' "$root/etc/ssl/certs/ca-certificates.crt" || bad "image for $architecture: there are no root certificates"
	command=(/usr/bin/mullion --version)
	if [ "$architecture" = arm64 ]; then
		install -m 755 "$emulator" "$root/emulator"
		command=(/emulator "${command[@]}")
	fi
	chmod 755 "$work" "$root"
	said=$(in_root "$root" "${command[@]}" 2>&1) || true
	[ "$said" = "mullion $version" ] || bad "image for $architecture: /usr/bin/mullion --version prints $said"
done

# The chart: Helm takes it, and it is this version.
[ "$("$helm" show chart "mullion-$version.tgz" | sed -n 's/^appVersion: //p' | tr -d '"')" = "$version" ] || bad "the chart's appVersion is not $version"
"$helm" template mullion "mullion-$version.tgz" --namespace mullion-system --set image.repository=registry.example.com/mullion >/dev/null ||
	bad "the chart does not render"

# Nothing of the time and the machine of packing.
for archive in *.tar.gz *.tgz *.tar; do
	[ "$(tar -tvf "$archive" --numeric-owner --full-time | awk '{print $2, $4, $5}' | sort -u | wc -l)" = 1 ] ||
		bad "$archive: owners or times differ"
	tar -tf "$archive" | sed 's|/$||' | sort -c || bad "$archive is not sorted"
done

[ "$failed" = 0 ] && echo "release: the files in $folder pass all tests"
exit "$failed"
