#!/usr/bin/env bash
# Starts the demo's cluster and Mullion, and leaves them running: up.sh FOLDER PROGRAM [ARGUMENT]...
set -euo pipefail
folder=$1
shift
mkdir -p "$folder"
folder=$(cd "$folder" && pwd)
if [ -f "$folder/pid" ] && kill -0 "$(cat "$folder/pid")" 2>/dev/null; then
  echo "already running: export KUBECONFIG=$folder/kubeconfig (make down stops it)"
  exit 0
fi
rm -f "$folder/kubeconfig"
# The background process opens its log only after this script has continued, and the loop below reads it.
: >"$folder/log"
# In its own session, neither Ctrl-C nor the end of this shell stops it.
setsid nohup "$@" --up "$folder/kubeconfig" >>"$folder/log" 2>&1 </dev/null &
pid=$!
echo "$pid" >"$folder/pid"
# If this script ends before the cluster is ready, by an error or Ctrl-C, nothing stays running.
stop() {
  kill -TERM "$pid" 2>/dev/null || true
  rm -f "$folder/pid"
}
trap stop EXIT
shown=0
print_new_lines() {
  local lines
  lines=$(wc -l <"$folder/log")
  if [ "$lines" -gt "$shown" ]; then
    sed -n "$((shown + 1)),${lines}p" "$folder/log"
    shown=$lines
  fi
}
while [ ! -f "$folder/kubeconfig" ]; do
  print_new_lines
  if ! kill -0 "$pid" 2>/dev/null; then
    tail -n 40 "$folder/log" >&2
    echo "up: the cluster did not start; the log is $folder/log" >&2
    exit 1
  fi
  sleep 0.2
done
trap - EXIT
echo "Mullion is running. make down stops it. To use it in this shell:"
echo "export KUBECONFIG=$folder/kubeconfig"
echo "export PATH=\"${KUBEBUILDER_ASSETS:+$KUBEBUILDER_ASSETS:}$(cd "$(dirname "$1")" && pwd):\$PATH\"   # kubectl, helm and mullion"
