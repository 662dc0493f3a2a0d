#!/usr/bin/env bash
# Stops the cluster that up.sh started: down.sh FOLDER
set -euo pipefail
folder=$1
if [ ! -f "$folder/pid" ] || ! kill -0 "$(cat "$folder/pid")" 2>/dev/null; then
  echo "nothing is running"
  exit 0
fi
pid=$(cat "$folder/pid")
kill -TERM "$pid"
while kill -0 "$pid" 2>/dev/null; do sleep 0.1; done
rm -f "$folder/pid" "$folder/kubeconfig"
echo "stopped"
