#!/usr/bin/env bash
# Tries the pre-commit hook and the Krew manifest with the real pre-commit and krew: packaging/try.sh MULLION
# MULLION is the program. The tools are installed below target/packaging, with pip and go.
set -euo pipefail
cd "$(dirname "$0")/.."
repository=$PWD
program=$(realpath "$1")
tools=$PWD/target/packaging
precommit=4.3.0
version=$(sed -n '/^\[workspace.package\]/,/^$/s/^version = "\(.*\)"/\1/p' Cargo.toml)

say() { printf 'packaging: %s\n' "$*"; }
die() { printf 'packaging: %s\n' "$*" >&2; exit 1; }
for tool in git go python3 zip kubectl; do
	command -v "$tool" >/dev/null || die "$tool is missing: install it"
done

mkdir -p "$tools"
if [ ! -x "$tools/pre-commit-$precommit/bin/pre-commit" ]; then
	python3 -m venv "$tools/pre-commit-$precommit"
	"$tools/pre-commit-$precommit/bin/pip" install --quiet "pre-commit==$precommit"
fi
(cd packaging/krew/tools && GOBIN=$tools/krew go install -trimpath tool)
work=$(mktemp -d)
server=
cleanup() {
	[ -z "$server" ] || kill "$server"
	rm -rf "$work"
}
trap cleanup EXIT
mkdir "$work/programs" "$work/new"
ln -s "$program" "$work/programs/mullion"
ln -s "$tools/krew/krew" "$work/programs/kubectl-krew"
export PATH=$work/programs:$tools/pre-commit-$precommit/bin:$PATH
# No setting of the user or of this repository has an effect.
export HOME=$work/home GIT_CONFIG_GLOBAL=$work/gitconfig PRE_COMMIT_HOME=$work/pre-commit
mkdir "$HOME"
git config --global user.name test
git config --global user.email test@localhost

# expect CODE WORDS COMMAND…: runs a command, whose exit code must be CODE and whose output must contain WORDS.
expect() {
	local code=$1 words=$2 status=0 output
	shift 2
	output=$("$@" 2>&1) || status=$?
	[ "$status" = "$code" ] || die "$* ended with $status, not $code: $output"
	grep -qF -- "$words" <<<"$output" || die "$* did not print \"$words\": $output"
	say "$* ended with $status and printed \"$words\""
}

# A new repository that names the hook of this one, as of a copy with the files of now.
git clone --quiet --no-hardlinks "$repository" "$work/mullion"
cp .pre-commit-hooks.yaml "$work/mullion"
git -C "$work/mullion" add .pre-commit-hooks.yaml
git -C "$work/mullion" diff --cached --quiet || git -C "$work/mullion" commit --quiet -m hooks
cd "$work/new"
git init --quiet
mkdir -p manifests chart/templates
cp "$repository/examples/linux-deployment.yaml" manifests/good.yaml
printf '{{ if .Values.on }}\na: b\n{{ end }}\n' >chart/templates/a.yaml
cat >.pre-commit-config.yaml <<EOF
repos:
  - repo: $work/mullion
    rev: $(git -C "$work/mullion" rev-parse HEAD)
    hooks:
      - id: mullion-check
EOF
pre-commit install >/dev/null
git add .
expect 0 "mullion check" git commit -m good
cp "$repository/examples/windows-bad-pod.yaml" manifests/bad.yaml
git add .
expect 1 "MUL201" git commit -m bad
# A file whose name is an option: it is checked by default, and with the arguments of a user.
mkdir -p -- '--policies=p' p
printf 'apiVersion: mullion.dev/v1alpha1\nkind: PodPolicy\nmetadata: {name: off}\nspec: {priority: 10, mode: Disabled}\n' >p/a.yaml
cp manifests/bad.yaml './--policies=p/a.yaml'
git add .
expect 1 "--> --policies=p/a.yaml:" git commit -m option
sed -i 's/id: mullion-check/&\n        args: [--fail-on, deny]/' .pre-commit-config.yaml
git add .
expect 1 "is an option, and the name of a file here" git commit -m arguments
sed -i 's/args: .*/args: [--fail-on, deny, --]/' .pre-commit-config.yaml
git add .
expect 1 "--> --policies=p/a.yaml:" git commit -m arguments
git rm --quiet --cached -r -- '--policies=p' p
rm -r -- './--policies=p' p
git rm --quiet --cached manifests/bad.yaml
rm manifests/bad.yaml
cd "$repository"

# Archives with the names and the layout of a release, served over HTTP.
mkdir "$work/release"
for target in x86_64-unknown-linux-musl aarch64-unknown-linux-musl x86_64-pc-windows-gnu; do
	folder=mullion-$version-$target
	mkdir -p "$work/packed/$folder"
	cp LICENSE "$work/packed/$folder"
	case $target in
		*windows*)
			cp "$program" "$work/packed/$folder/mullion.exe"
			(cd "$work/packed" && zip -q -r "$work/release/$folder.zip" "$folder")
			;;
		*)
			cp "$program" "$work/packed/$folder/mullion"
			tar -C "$work/packed" -czf "$work/release/$folder.tar.gz" "$folder"
			;;
	esac
	rm -r "$work/packed"
done
(cd "$work/release" && sha256sum -- * >"$work/SHA256SUMS" && mv "$work/SHA256SUMS" .)
python3 - "$work/release" >"$work/port" 2>/dev/null <<'EOF' &
import functools, http.server, sys
handler = functools.partial(http.server.SimpleHTTPRequestHandler, directory=sys.argv[1])
server = http.server.ThreadingHTTPServer(("127.0.0.1", 0), handler)
print(server.server_port, flush=True)
server.serve_forever()
EOF
server=$!
until [ -s "$work/port" ]; do sleep 0.1; done

packaging/krew/manifest.sh "$work/release" "http://127.0.0.1:$(cat "$work/port")" >"$work/mullion.yaml"
# Checks the manifest by Krew's rules, and installs it for each platform from its address.
expect 0 "all 3 spec.platforms installed fine" "$tools/krew/validate-krew-manifest" -manifest "$work/mullion.yaml"
export KREW_ROOT=$work/krew
expect 0 "Installed plugin: mullion" kubectl krew install --manifest "$work/mullion.yaml" \
	--archive "$work/release/mullion-$version-x86_64-unknown-linux-musl.tar.gz"
PATH=$KREW_ROOT/bin:$PATH
expect 0 "$version" kubectl mullion version
# Another file than the one whose checksum the manifest has.
tar -C "$repository" -czf "$work/other.tar.gz" LICENSE
KREW_ROOT=$work/krew-2 expect 1 "checksum does not match" \
	kubectl krew install --manifest "$work/mullion.yaml" --archive "$work/other.tar.gz"
