#!/usr/bin/env bash
# Builds the control plane's tools from the Go modules pinned in go.mod and go.sum, once per version. The registry and its
# client are in a module of their own, images/, because in the same module they would change the dependencies of Kubernetes.
#   build.sh [FOLDER]   default folder: <repository>/.tools/<hash of both go.mod, both go.sum and the Go version>
#   build.sh --kubernetes 1.33 [FOLDER]   the Kubernetes release, etcd and KWOK of versions/1.33, and the other tools of the
#                       default release; default folder: <repository>/.tools/1.33/<hash>
#   build.sh --cluster  only the tools that a cluster needs, in the default folder: without the registry and crane
#   build.sh --list     prints the minor versions that --kubernetes accepts, oldest first
# Prints the folder with the tools as its only line on stdout; everything else is printed on stderr.
# KUBEBUILDER_ASSETS: if this folder already contains every tool, it is used and nothing is built, except with --kubernetes.
set -euo pipefail

here=$(cd "$(dirname "${BASH_SOURCE[0]}")" && pwd)
repository=$(cd "$here/../../.." && pwd)
cluster_tools=(etcd kube-apiserver kube-controller-manager kube-scheduler kubectl kwok helm helm-batch)
tools=("${cluster_tools[@]}" registry crane)
shared=(helm helm-batch registry crane)
pins=(go.mod go.sum cmd/helm-batch/main.go images/go.mod images/go.sum)

# release FILE: prints the Kubernetes release of a go.mod.
release() { sed -n 's/^[[:space:]]*k8s\.io\/kubernetes v\([0-9.]*\).*/\1/p' "$1" | head -n 1; }
default=$(release "$here/go.mod")

say() { printf 'tools: %s\n' "$*" >&2; }
die() { say "$@"; exit 1; }

# missing FOLDER: prints those of the tools that FOLDER lacks, one per line. The name of etcd's program in its Go module is "server".
missing() {
  local tool
  for tool in "${tools[@]}"; do
    [[ -x $1/$tool && -f $1/$tool ]] || { [[ $tool == etcd && -x $1/server && -f $1/server ]]; } || echo "$tool"
  done
}
complete() { [[ -d $1 && -z $(missing "$1") ]]; }
absolute() { (cd "$1" && pwd); }
of_today() {
  local pin
  complete "$1" || return
  for pin in "${pins[@]}"; do cmp -s "$1/$pin" "$here/$pin" || return; done
}
checksum() { if command -v sha256sum >/dev/null; then sha256sum; else shasum -a 256; fi; }

kubernetes=
module=. # the folder of the Go module, relative to this one
store=$repository/.tools
case ${1:-} in
  --list)
    { echo "${default%.*}"; (cd "$here/versions" && printf '%s\n' */ | tr -d /); } | sort -V
    exit 0
    ;;
  --cluster)
    tools=("${cluster_tools[@]}")
    shift
    ;;
  --kubernetes)
    kubernetes=${2:?build.sh --kubernetes 1.33}
    shift 2
    if [[ $kubernetes != "${default%.*}" ]]; then
      module=versions/$kubernetes store=$store/$kubernetes
      [[ -f $here/$module/go.mod ]] || die "no Kubernetes $kubernetes: one of $("$here/build.sh" --list | paste -sd ' ' -)"
      pins+=("$module/go.mod" "$module/go.sum")
    fi
    ;;
esac

# Flags with the Kubernetes release of go.mod. A server without them reports a version that clients cannot parse.
version=$(release "$here/$module/go.mod")
IFS=. read -r major minor _ <<<"$version"
meta=k8s.io/component-base/version
flags=(-v -trimpath -ldflags "-s -w -X $meta.gitVersion=v$version -X $meta.gitMajor=$major -X $meta.gitMinor=$minor")
# Up to 1.30 Kubernetes contains cloud providers, whose dependencies are not needed here.
if grep -q '^[[:space:]]k8s.io/legacy-cloud-providers ' "$here/$module/go.mod"; then flags+=(-tags providerless); fi

if [[ -n ${KUBEBUILDER_ASSETS:-} && -z $kubernetes ]]; then
  if complete "$KUBEBUILDER_ASSETS"; then absolute "$KUBEBUILDER_ASSETS"; exit 0; fi
  say "KUBEBUILDER_ASSETS=$KUBEBUILDER_ASSETS lacks $(missing "$KUBEBUILDER_ASSETS" | paste -sd ' ' -); it is not used."
fi

if [[ -n ${1:-} && $1 != /* ]]; then set -- "$PWD/$1"; fi
cd "$here"
if command -v go >/dev/null; then
  go_version=$(go env GOVERSION) || die "this Go cannot read $here/go.mod: install Go 1.26 or newer (go.dev/dl)."
  hash=$( { cat "${pins[@]}"; echo "$go_version"; } | checksum | cut -c 1-16)
  target=${1:-$store/$hash}
  if of_today "$target"; then absolute "$target"; exit 0; fi
else # tools that an earlier run built from the same go.mod and go.sum are used again
  for folder in ${1:+"$1"} "$store"/*/; do
    if of_today "$folder"; then absolute "$folder"; exit 0; fi
  done
fi

lacking=()
command -v go >/dev/null || lacking+=("Go 1.26 or newer (install it from go.dev/dl, or a distribution's Go of at least 1.21, which fetches the rest itself)")
command -v "${CC:-cc}" >/dev/null || command -v gcc >/dev/null || command -v clang >/dev/null \
  || lacking+=("a C compiler (Debian and Ubuntu: apt-get install gcc libc6-dev; Fedora: dnf install gcc)")
command -v cargo >/dev/null || [[ -x ${CARGO_HOME:-${HOME:-/nonexistent}/.cargo}/bin/cargo ]] \
  || lacking+=("cargo 1.89 or newer (install Rust with rustup, see rustup.rs)")
if ((${#lacking[@]})); then
  say "missing on this machine:"
  printf 'tools:   - %s\n' "${lacking[@]}" >&2
  command -v go >/dev/null || die "the tools cannot be built without Go. Install it and run this again."
  say "the tools can be built all the same; Mullion itself needs what is missing."
fi

# Go's caches are in HOME. If HOME is not writable, they are created in the repository.
for cache in GOCACHE GOMODCACHE; do
  folder=$(go env "$cache" 2>/dev/null || true)
  if [[ -z $folder || $folder == off ]] || ! mkdir -p "$folder" 2>/dev/null || [[ ! -w $folder ]]; then
    export "$cache=$repository/.tools/cache/$cache" GOFLAGS="${GOFLAGS:-} -modcacherw" # so that rm -r can remove it
    say "Go's own ${cache} cannot be written; using ${!cache}"
  fi
done
if [[ $module != . ]]; then others=$("$here/build.sh"); fi # it contains the shared tools
parent=$(dirname "$target")
mkdir -p "$parent"
parent=$(absolute "$parent")
target=$parent/$(basename "$target")
if [[ -d $target && ! -f $target/go.mod && -n $(ls -A "$target") ]]; then
  die "$target holds other files. Name an empty or new folder."
fi
for old in "$parent"/.build.*; do # the folder of a build that was killed
  [[ -d $old ]] && ! kill -0 "${old##*.}" 2>/dev/null && rm -rf "$old"
done
work=$parent/.build.$$
rm -rf "$work"
mkdir "$work"
job=
cleanup() {
  if [[ -n $job ]]; then kill "$job" 2>/dev/null || true; wait "$job" 2>/dev/null || true; fi
  rm -rf "$work"
}
trap cleanup EXIT
trap 'exit 130' INT
trap 'exit 143' TERM

# What an earlier run with --cluster built is used again.
built=()
if (tools=("${cluster_tools[@]}") && of_today "$target"); then built=("${cluster_tools[@]}"); fi

with="Kubernetes $version, etcd, Helm, KWOK, a registry and crane"
if [[ $module != . ]]; then with="Kubernetes $version, etcd and KWOK"
elif ((${#built[@]})); then with="a registry and crane"
elif ((${#tools[@]} == ${#cluster_tools[@]})); then with="Kubernetes $version, etcd, Helm and KWOK"; fi
say "building $with with $go_version into $target"
say "the first build takes about 6 minutes on 2 cores, 3.2 GB of build cache and 1.2 GB of modules; later ones take seconds."
log=$work/build.log
mkdir "$work/bin"
for tool in ${built[@]+"${built[@]}"}; do ln "$target/$tool" "$work/bin/" 2>/dev/null || cp "$target/$tool" "$work/bin/"; done
# -v prints every package when it is compiled, which shows the progress.
(
  # Go's compiler then collects less garbage: client-go and apiserver took 196 s of processor time instead of 250 s.
  export GOGC=400
  export GOBIN=$work/bin
  ((${#built[@]})) || (cd "$module" && go install "${flags[@]}" tool) || exit
  ((${#built[@]})) || mv "$work/bin/server" "$work/bin/etcd"
  if [[ $module == . && " ${tools[*]} " == *" crane "* ]]; then cd images && go install -v -trimpath -ldflags "-s -w" tool; fi
) >"$log" 2>&1 &
job=$!
progress() {
  local downloads packages linked size
  downloads=$(grep -c '^go: downloading' "$log" || true)
  packages=$(grep -vc '^go: ' "$log" || true)
  linked=$(find "$work/bin" -type f 2>/dev/null | wc -l | tr -d ' ')
  size=$(du -sm "$work" 2>/dev/null | cut -f 1)
  printf 'tools: %dm%02ds, %d modules fetched, %d packages compiled, %d of %d tools linked, %d MB' \
    $((SECONDS / 60)) $((SECONDS % 60)) "$downloads" "$packages" "$linked" "${#tools[@]}" "$size"
}
next=10
while kill -0 "$job" 2>/dev/null; do
  if [[ -t 2 ]]; then
    printf '\r%s\033[K' "$(progress)" >&2
  elif ((SECONDS >= next)); then
    printf '%s\n' "$(progress)" >&2
    next=$((SECONDS + 10))
  fi
  sleep 0.5
done
status=0
wait "$job" || status=$?
job=
[[ ! -t 2 ]] || printf '\r\033[K' >&2
if ((status)); then
  grep -v '^go: downloading' "$log" | grep ' ' | tail -n 20 >&2 || true # a line without a space is the name of a package
  die "the build failed after $((SECONDS / 60))m$((SECONDS % 60))s (exit status $status); Go's last words are above." \
    "What is compiled stays in Go's cache: once the cause is gone (network, disk space, memory), run this again."
fi
say "$(progress | sed 's/^tools: //')"

for pin in "${pins[@]}"; do
  mkdir -p "$work/bin/$(dirname "$pin")"
  cp "$pin" "$work/bin/$pin"
done
if [[ $module != . ]]; then
  for tool in "${shared[@]}"; do ln "$others/$tool" "$work/bin/" 2>/dev/null || cp "$others/$tool" "$work/bin/"; done
fi
complete "$work/bin" || die "the build ended well but lacks $(missing "$work/bin" | paste -sd ' ' -): do go.mod's tool lines match this script?"
rm -rf "$target"
mv "$work/bin" "$target"
rm -rf "${target:?}/bin" # exists if another build created $target at the same time
echo "$target"
