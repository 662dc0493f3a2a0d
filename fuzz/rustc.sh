#!/usr/bin/env bash
# Runs the compiler for cargo (RUSTC_WRAPPER), with counters at every edge for the crates that read inputs. libFuzzer reads
# every counter after each input, so counters in the other crates (TLS, HTTP, Kubernetes clients) would only take time.
set -euo pipefail

# The flags that cargo-fuzz passes without a sanitizer, except -sanitizer-coverage-trace-compares: a call for each comparison
# takes half of the time, and the words that inputs are compared with are in dictionary.txt.
flags=(
  -Cpasses=sancov-module
  -Cllvm-args=-sanitizer-coverage-level=3
  -Cllvm-args=-sanitizer-coverage-inline-8bit-counters
  -Cllvm-args=-sanitizer-coverage-pc-table
  -Ccodegen-units=1
)

case " $* " in
  *" --target "*) ;;
  *) exec "$@" ;; # a build script or a procedural macro, which runs on the host
esac
case " $* " in
  *" --crate-name mullion"* | *" --crate-name granit_parser "* | *" --crate-name json_patch "* | *" --crate-name serde_json "* | \
    *" --crate-name serde_saphyr "*) exec "$@" "${flags[@]}" ;;
  *) exec "$@" ;;
esac
