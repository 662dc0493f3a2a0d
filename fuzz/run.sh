#!/usr/bin/env bash
# Builds and runs the fuzz targets, one after the other.
#   run.sh seconds N [TARGET…]   runs each target for N seconds
#   run.sh runs N [TARGET…]      runs each target N times
#   run.sh keep [TARGET…]        adds what earlier runs found to the corpus, and keeps the smallest set of files that
#                                covers the same code
# Inputs that failed are in target/fuzz/finds/TARGET/; new inputs are in target/fuzz/inputs/TARGET/ and are used by the next run.
# Exit status 1 if an input failed. To run one input alone: FUZZ_TARGET=TARGET PROGRAM FILE
set -euo pipefail
cd "$(dirname "${BASH_SOURCE[0]}")/.."

cargo=${CARGO:-cargo}
target=${CARGO_TARGET_DIR:-target}/fuzz
# The maximum length of an input in bytes. Short inputs find more in the same time. A request body has up to 64 KiB.
longest=${LONGEST:-1024}
# The limits of memory per process in MB and of time per input in seconds. The targets measure processor time themselves, so
# the time limit is only for an input that never ends. It is long because the machine may be busy.
memory=2048
timeout=1200

die() { printf 'fuzz: %s\n' "$*" >&2; exit 2; }

mode=${1:-}
case $mode in
  seconds | runs)
    [[ ${2:-} =~ ^[0-9]+$ ]] || die "usage: fuzz/run.sh $mode NUMBER [TARGET…]"
    number=$2
    shift 2
    ;;
  keep) shift ;;
  *) die "usage: fuzz/run.sh seconds N|runs N|keep [TARGET…]" ;;
esac

command -v c++ >/dev/null || die "a C++ compiler is missing: install g++ (Debian: apt-get install g++)"

# With --target, rustc.sh can distinguish build scripts and procedural macros.
host=$(rustc -vV | sed -n 's/^host: //p')
RUSTC_WRAPPER=$PWD/fuzz/rustc.sh "$cargo" build --locked --release --manifest-path fuzz/Cargo.toml --target "$host" --target-dir "$target"
program=$target/$host/release/mullion-fuzz

targets=("$@")
if ((${#targets[@]} == 0)); then
  mapfile -t targets < <(FUZZ_TARGET=list "$program" 2>/dev/null)
fi

failed=()
for name in "${targets[@]}"; do
  inputs=$target/inputs/$name finds=$target/finds/$name kept=fuzz/corpus/$name
  mkdir -p "$inputs" "$finds" "$kept"
  # -reload=0: no other process adds inputs, so there is no need to read their folder again every second. -entropic=0: weights
  # of inputs by how rare their code is take a fifth to a third of the time, and cover no more in the same time.
  options=(-dict=fuzz/dictionary.txt "-max_len=$longest" "-rss_limit_mb=$memory" "-timeout=$timeout" -reload=0 -entropic=0)
  options+=(-artifact_prefix="$finds/" -print_final_stats=1 -verbosity=1)
  export FUZZ_TARGET=$name
  if [[ $mode == keep ]]; then
    smaller=$(mktemp -d)
    # Only small files, because `make test` runs each of them.
    "$program" -set_cover_merge=1 -max_len=1024 -dict=fuzz/dictionary.txt "$smaller" "$kept" "$inputs" >"$target/$name.log" 2>&1 ||
      die "$name: the merge failed: see $target/$name.log"
    rm -rf "$kept"
    mv "$smaller" "$kept"
    chmod 755 "$kept"
    printf '%-20s %d files\n' "$name" "$(find "$kept" -type f | wc -l)"
    continue
  fi
  case $mode in
    seconds) options+=(-max_total_time="$number") ;;
    runs) options+=(-runs="$number") ;;
  esac
  # The first folder gets new inputs; the others are only read.
  status=0
  "$program" "${options[@]}" "$inputs" "$kept" >"$target/$name.log" 2>&1 || status=$?
  runs=$(sed -n 's/^stat::number_of_executed_units: *//p' "$target/$name.log")
  speed=$(sed -n 's/^stat::average_exec_per_sec: *//p' "$target/$name.log")
  printf '%-20s %12s runs, %7s a second' "$name" "${runs:-?}" "${speed:-?}"
  if ((status)); then
    failed+=("$name")
    printf ', FAILED: %s\n' "$(find "$finds" -type f -printf '%T@ %f\n' | sort -rn | sed -n '1s/^[^ ]* //p')"
    tail -n 40 "$target/$name.log"
    printf 'fuzz: run it alone: FUZZ_TARGET=%s %s %s/FILE\n' "$name" "$program" "$finds"
  else
    printf ', nothing found\n'
  fi
done
((${#failed[@]} == 0))
