#!/usr/bin/env bash
# Runs the test suites and prints a summary, for the targets with the same names in the Makefile.
#   run.sh check   the lints, and the suites that need neither a cluster nor a tool that must be built
#   run.sh test    all suites
#   run.sh soak    the long forms of the trials that find rare faults by repetition
#   run.sh versions [1.33 …]   the suites that start a control plane, on each Kubernetes release of
#                  tests/cluster/tools/build.sh --list, or on those named; prints a table at the end
# Prints a line for each suite that has ended, the slowest trials, and for each trial that failed the command that runs
# it alone, its shortened output, and the path of its log. Logs: target/test-logs/<suite>.log. Exit status 1 if a
# trial failed.
set -euo pipefail
cd "$(dirname "${BASH_SOURCE[0]}")/.."

cargo=${CARGO:-cargo}
target=${CARGO_TARGET_DIR:-target}
logs=$target/test-logs
read -r -a cluster_suites <<<"${CLUSTER_SUITES:?the Makefile sets it: run make check, make test, make soak or make versions}"
# The trials of `make soak`, by suite.
soaks=(
  "on_cluster leaders::one_writes_at_a_time"
  "on_cluster certificates::no_call_fails_while_certificates_change"
  "on_cluster connections::no_review_is_lost_while_slots_are_short"
  "on_cluster nodes::many_nodes_get_one_patch_each"
  "on_cluster survival::every_network_failure"
  "on_cluster registration::the_server_calls_for_exactly_the_expected_requests"
  "on_cluster differential::catalogue_and_server_agree"
  "webhook edits::every_answer_is_of_one_set"
)
slowest=30
# A trial that takes longer, in seconds, is marked. It holds up everybody who waits for the tests: split it, or find what it waits for.
long=60
# The number of lines shown of the output of a failed trial, half of them from its end. Often only the CI log is available.
shown_lines=40
# Tests connect only to this machine, even if a proxy is configured: the same as in .cargo/config.toml, which `cargo test` reads.
export NO_PROXY=localhost,.svc,127.0.0.0/8,10.0.0.0/8
export no_proxy=$NO_PROXY

die() { printf 'tests: %s\n' "$*" >&2; exit 2; }

# build ARGUMENT…: compiles tests; prints folder, kind, name and program of each, separated by tabs.
build() {
  local json=$logs/.build.json
  "$cargo" test --locked --workspace --no-run --message-format=json-render-diagnostics "$@" >"$json" || die "the tests do not compile"
  sed -n '/"test":true},"features/s/.*"manifest_path":"\(.*\)\/Cargo\.toml","target":{"kind":\["\([a-z-]*\)"\].*"name":"\([^"]*\)","src_path.*"executable":"\([^"]*\)".*/\1\t\2\t\3\t\4/p' "$json" |
    sort -u
}

# The command that runs a suite with a lower priority; empty for the usual priority.
priority=()

# run LABEL SUITE [ARGUMENT…]: runs a suite with its output in LABEL.log; prints one line about it.
run() {
  local label=$1 suite=$2 folder kind program began=$SECONDS status=0 options=()
  shift 2
  IFS=$'\t' read -r folder kind _ program < <(awk -F '\t' -v name="$suite" '$3 == name' "$logs/.suites")
  # Rust's own harness reports times only with an unstable option. RUSTC_BOOTSTRAP=1 allows that with a stable compiler.
  if grep -aq 'report-time' "$program"; then
    options=(-Z unstable-options --report-time)
  fi
  (cd "$folder" && RUSTC_BOOTSTRAP=1 exec ${priority[@]+"${priority[@]}"} "$program" ${options[@]+"${options[@]}"} "$@") >"$logs/$label.log" 2>&1 || status=$?
  printf '%s\t%s\t%s\t%s\n' "$label" "$suite" "$kind" "$status" >>"$logs/.ended"
  printf '%-16s %s, %d s\n' "$label" "$(result "$label")" "$((SECONDS - began))"
}

# result LABEL: prints "12 passed, 0 failed" for a log.
result() {
  awk '/^test result: / { found = 1; passed += $4; failed += $6 } END {
    if (found) printf "%d passed, %d failed", passed, failed; else printf "no result: it ended early" }' "$logs/$1.log"
}

# The Kubernetes release on which suites run, as 1.33; empty for that of the repository.
kubernetes=

lane() { local name; for name in "$@"; do run "${kubernetes:+$kubernetes-}$name" "$name"; done; }

# two_lanes SUITE…: runs suites in this order, two at the same time; another job of the shell counts as one. Waits for all.
two_lanes() {
  local name
  for name in "$@"; do
    while (($(jobs -rp | wc -l) >= 2)); do wait -n; done
    lane "$name" &
  done
  wait
}

# lanes [SUITE…]: runs the cluster suites, and the others beside and after them. `on_cluster` and `installed` mostly wait for
# clusters. They run one after the other, because at the same time they would compete for processors and poll more often. The
# other suites run beside them with a lower priority.
lanes() {
  lane on_cluster installed &
  priority=(nice -n 10)
  two_lanes "$@"
  priority=()
}

# failures: prints for each trial that failed the command that runs it alone, where its logs are, and its output, shortened.
failures() {
  local label suite kind status log chosen trial tools
  while IFS=$'\t' read -r label suite kind status; do
    ((status)) || continue
    log=$logs/$label.log
    if ! grep -q '^test result: ' "$log"; then
      printf '\nfailed: %s ended early (exit status %s). The end of %s:\n' "$suite" "$status" "$log"
      tail -n 20 "$log"
    fi
    chosen="--$kind"
    [[ $kind == lib ]] || chosen="--$kind $suite"
    tools=
    [[ $label == "$suite" || $mode != versions ]] || tools="KUBEBUILDER_ASSETS=\"\$(tests/cluster/tools/build.sh --kubernetes ${label%%-*})\" "
    sed -n 's/^test \(.*[^ ]\) *\.\.\. FAILED.*/\1/p' "$log" | while IFS= read -r trial; do
      printf '\nfailed: %s %s\n' "$suite" "$trial"
      printf '  run it alone: %scargo test --locked --workspace %s -- --exact %s\n' "$tools" "$chosen" "$trial"
      printf '  logs: %s\n' "$log"
      # The output of the trial, which contains the path of the folder with the logs of its processes.
      awk -v head="---- $trial ----" -v other="---- $trial stdout ----" \
        '$0 == head || $0 == other { on = 1; next } /^---- |^failures:$/ { on = 0 } on { print "  " $0 }' "$log" |
        cut -c -400 | awk -v most="$shown_lines" '{ line[NR] = $0 } END {
          for (at = 1; at <= NR; at++) {
            if (NR > most && at == int(most / 2) + 1) { print "  …"; at = NR - int(most / 2) + 1 }
            print line[at]
          } }'
    done
  done <"$logs/.ended"
}

# times: prints seconds, suite and name of every trial whose duration is known.
times() {
  local label suite _
  while IFS=$'\t' read -r label suite _; do
    sed -n "s/^test \(.*[^ ]\) *\.\.\. ok <\([0-9.]*\)s>.*/\2\t$suite \1/p" "$logs/$label.log"
    if [[ -f $target/trial-times/$suite.tsv ]]; then sed "s/\t/\t$suite /" "$target/trial-times/$suite.tsv"; fi
  done <"$logs/.ended"
}

# summary: prints the results. Programs read the last line.
summary() {
  local label _ passed=0 failed=0 numbers
  printf '\nThe slowest %d trials, in seconds:\n' "$slowest"
  times | sort -rn | uniq | awk -F '\t' -v most="$slowest" -v long="$long" '
    NR <= most || $1 > long { printf "%7.1f  %s%s\n", $1, $2, ($1 > long ? "  <- above " long " s" : "") }'
  # A trial left something that the sweep does not remove: the next one waited for minutes. No trial fails by that.
  grep -h '^a fixture cannot be cleaned' "$logs"/*.log || true
  failures
  while IFS=$'\t' read -r label _; do
    # A suite that ended early counts as one failure.
    numbers=$(awk '/^test result: / { found = 1; passed += $4; failed += $6 } END { print passed + 0, found ? failed : 1 }' "$logs/$label.log")
    passed=$((passed + ${numbers% *})) failed=$((failed + ${numbers#* }))
  done <"$logs/.ended"
  printf '\n%d min %d s\n%d passed, %d failed\n' $((SECONDS / 60)) $((SECONDS % 60)) "$passed" "$failed"
  ((failed == 0))
}

# table: prints the results of each Kubernetes release. `cases` and `registration` are parts of on_cluster. Skipped trials need
# a newer release.
table() {
  local label suite _ release
  printf '\n%-10s %-24s %8s %8s %8s\n' version suite passed failed skipped
  while IFS=$'\t' read -r label suite _; do
    release=$(cat "$logs/.release-${label%%-*}")
    awk -v release="$release" -v suite="$suite" '
      function row(name, passed, failed, skipped) {
        printf "%-10s %-24s %8s %8s %8s\n", release, name, passed, failed, skipped
      }
      /^test result: / { found = 1; passed += $4; failed += $6; skipped += $8; next }
      /^test [a-z_]+::.* \.\.\. / { split($2, path, "::"); result = $4; count[path[1], result]++ }
      END {
        if (suite == "on_cluster") {
          row("on_cluster cases", count["cases", "ok"] + 0, count["cases", "FAILED"] + 0, count["cases", "ignored"] + 0)
          row("on_cluster registration", count["registration", "ok"] + 0, count["registration", "FAILED"] + 0,
            count["registration", "ignored"] + 0)
        }
        if (found) row(suite, passed, failed, skipped); else row(suite, "-", "ended early", "-")
      }' "$logs/$label.log"
  done < <(sort -V "$logs/.ended")
}

mode=${1:-}
case $mode in check | test | soak | versions) ;; *) die "usage: tests/run.sh check|test|soak|versions [1.33 …]" ;; esac
shift
mkdir -p "$logs" "$target/trial-times"
rm -f "$logs"/.ended "$logs"/*.log "$target"/trial-times/*.tsv
pure=()
if [[ $mode == versions ]]; then
  : >"$logs/.suites"
else
  build >"$logs/.suites"
  while IFS=$'\t' read -r _ _ name _; do pure+=("$name"); done <"$logs/.suites"
fi
if [[ $mode != check ]]; then
  chosen=()
  for name in "${cluster_suites[@]}"; do chosen+=(--test "$name"); done
  build "${chosen[@]}" >>"$logs/.suites"
fi
printf 'compiled in %d min %d s\n' $((SECONDS / 60)) $((SECONDS % 60))

case $mode in
  check)
    # The lints compile while the suites run. Before the suites they leave a processor idle for half of their time.
    make --no-print-directory clippy >"$logs/clippy.log" 2>&1 &
    lints=$!
    # The longest suites first, so that both lanes end at the same time.
    longest=(webhook cli engine mullion)
    others=()
    for name in "${pure[@]}"; do [[ " ${longest[*]} " == *" $name "* ]] || others+=("$name"); done
    (two_lanes "${longest[@]}" "${others[@]}")
    if ! wait "$lints"; then
      cat "$logs/clippy.log" >&2
      printf 'clippy           failed\n\n'
      summary || true
      exit 1
    fi
    printf 'clippy           passed\n'
    ;;
  test) lanes chart registry control_plane "${pure[@]}" ;;
  versions)
    releases=("$@")
    (($#)) || mapfile -t releases < <(tests/cluster/tools/build.sh --list)
    for kubernetes in "${releases[@]}"; do
      KUBEBUILDER_ASSETS=$(tests/cluster/tools/build.sh --kubernetes "$kubernetes") || die "no tools for Kubernetes $kubernetes"
      export KUBEBUILDER_ASSETS
      "$KUBEBUILDER_ASSETS/kube-apiserver" --version | sed 's/^Kubernetes v//' >"$logs/.release-$kubernetes"
      printf '\nKubernetes %s\n' "$(cat "$logs/.release-$kubernetes")"
      lanes chart control_plane # `registry` starts no control plane
    done
    kubernetes=
    table
    ;;
  soak)
    export MULLION_SOAK=1
    for soak in "${soaks[@]}"; do
      read -r suite trial <<<"$soak"
      run "soak-${trial##*::}" "$suite" --nocapture --exact "$trial"
      # The measurements of the trial.
      grep -E '^(soak|[a-z]+): ' "$logs/soak-${trial##*::}.log" || true
    done
    ;;
esac
summary
