#!/usr/bin/env bash
# Starts the demo's cluster and Mullion, and leaves them running: up.sh FOLDER PROGRAM [ARGUMENT]...
set -euo pipefail
folder=$1
shift
mkdir -p "$folder"
if [ -f "$folder/pid" ] && kill -0 "$(cat "$folder/pid")" 2>/dev/null; then
  echo "already running: export KUBECONFIG=$(cd "$folder" && pwd)/kubeconfig (make down stops it)"
  exit 0
fi
rm -f "$folder/kubeconfig"
# A session of its own: neither Ctrl-C nor the end of this shell stops it.
setsid nohup "$@" --up "$folder/kubeconfig" >"$folder/log" 2>&1 </dev/null &
pid=$!
echo "$pid" >"$folder/pid"
shown=0
while [ ! -f "$folder/kubeconfig" ]; do
  lines=$(wc -l <"$folder/log")
  [ "$lines" -gt "$shown" ] && sed -n "$((shown + 1)),${lines}p" "$folder/log" && shown=$lines
  if ! kill -0 "$pid" 2>/dev/null; then
    tail -n 40 "$folder/log" >&2
    echo "up: it ended early; the log is $folder/log" >&2
    exit 1
  fi
  sleep 0.2
done
echo "Mullion is running. make down stops it."
echo "export KUBECONFIG=$(cd "$folder" && pwd)/kubeconfig"
