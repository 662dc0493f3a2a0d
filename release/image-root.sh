#!/usr/bin/env bash
# Writes the files of the image as they are in its file system: release/image-root.sh NEW-FOLDER PROGRAM
# The stage `build` of the Dockerfile writes the same files.
set -euo pipefail
cd "$(dirname "$0")/.."
root=$1 program=$2
certificates=/etc/ssl/certs/ca-certificates.crt
[ -s "$certificates" ] || { echo "image: $certificates is missing: apt-get install ca-certificates" >&2; exit 1; }
install -D -m 644 LICENSE "$root/LICENSE"
install -D -m 644 "$certificates" "$root$certificates"
install -D -m 755 "$program" "$root/usr/bin/mullion"
chmod -R u=rwX,go=rX "$root"
