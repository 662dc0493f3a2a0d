#!/usr/bin/env bash
# Runs the compiler for cargo (RUSTC_WRAPPER), with counters at every edge for the crates that read inputs. libFuzzer reads
# every counter after each input, so counters in the other crates (TLS, HTTP, Kubernetes clients) would only take time.
set -euo pipefail

# The flags that cargo-fuzz passes without a sanitizer: counters at every edge, and the values of comparisons.
flags=(
  -Cpasses=sancov-module
  -Cllvm-args=-sanitizer-coverage-level=4
  -Cllvm-args=-sanitizer-coverage-inline-8bit-counters
  -Cllvm-args=-sanitizer-coverage-pc-table
  -Cllvm-args=-sanitizer-coverage-trace-compares
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
