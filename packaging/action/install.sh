#!/usr/bin/env bash
# Step of action.yml: unpacks the archive of a release whose checksum is given, and adds it to the PATH. Without an archive, it only
# checks that the PATH has the program. Nothing is used whose checksum is unknown.
#   ARCHIVE  URL or path of the archive; may be empty
#   SHA256   its checksum
set -euo pipefail
die() {
	echo "::error title=Mullion::$*"
	exit 2
}

if [ -z "$ARCHIVE" ]; then
	[ -z "$SHA256" ] || die "sha256 is set, but archive is not: set archive to the URL or path of the archive of a release"
	command -v mullion >/dev/null ||
		die "the program mullion is not in the PATH: install it in an earlier step, or set archive and sha256 (docs/how-to/ci/github.md)"
	mullion version
	exit
fi
[[ $SHA256 =~ ^[0-9a-f]{64}$ ]] ||
	die "sha256 must be the checksum of $ARCHIVE, 64 hexadecimal digits in lower case, as in SHA256SUMS of the release"

folder=$(mktemp -d "${RUNNER_TEMP:?}/mullion.XXXXXX")
file=$folder/${ARCHIVE##*/}
case $ARCHIVE in
	https://*) curl --proto =https --fail --silent --show-error --location --retry 3 --output "$file" "$ARCHIVE" ||
		die "the download of $ARCHIVE failed" ;;
	*://*) die "archive must be a path or a URL that begins with https://, not $ARCHIVE" ;;
	*) cp "$ARCHIVE" "$file" || die "archive $ARCHIVE cannot be read" ;;
esac
if command -v sha256sum >/dev/null; then sum=$(sha256sum <"$file"); else sum=$(shasum -a 256 <"$file"); fi
sum=${sum%% *}
[ "$sum" = "$SHA256" ] || die "the checksum of $ARCHIVE is $sum, and not $SHA256: it is another file, so it is not used"

case $file in
	*.tar.gz) tar -xzf "$file" -C "$folder" ;;
	*.zip) unzip -q "$file" -d "$folder" ;;
	*) die "archive must end in .tar.gz or .zip, not $ARCHIVE" ;;
esac
program=$(find "$folder" -type f \( -name mullion -o -name mullion.exe \) -print -quit)
[ -n "$program" ] || die "$ARCHIVE contains no program mullion"
"$program" version || die "the program in $ARCHIVE does not run on this runner: use the archive for its system and processor"
dirname "$program" >>"$GITHUB_PATH"
