#!/usr/bin/env bash
# Prints the path of Chromium, and installs it with apt if it is missing.
set -euo pipefail

find_it() {
  local name
  for name in "${MULLION_CHROMIUM:-}" chromium chromium-browser google-chrome; do
    if [[ -n $name ]] && command -v "$name"; then return 0; fi
  done
  return 1
}

if find_it; then exit 0; fi
sudo=()
if ((EUID != 0)); then sudo=(sudo); fi
if command -v apt-get >/dev/null; then
  "${sudo[@]}" apt-get update -qq >&2
  DEBIAN_FRONTEND=noninteractive "${sudo[@]}" apt-get install -qq -y --no-install-recommends chromium >&2
  if find_it; then exit 0; fi
fi
echo "pages: Chromium is missing: install it, or name it in MULLION_CHROMIUM" >&2
exit 1
