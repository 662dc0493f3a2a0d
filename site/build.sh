#!/usr/bin/env bash
# Builds the documentation site into target/site/book, from docs/, policies/rules/ and the pages that docs/SUMMARY.md lists.
# Installs mdBook into target/mdbook if it is missing. Prints the path of the site.
#   SITE=FOLDER         builds there instead of in target/site
#   REPOSITORY=ADDRESS  adds links with which a reader edits a page, as if Cargo.toml had this `repository`
set -euo pipefail
cd "$(dirname "${BASH_SOURCE[0]}")/.."

version=0.5.4
site=${SITE:-target/site}

die() { printf 'site: %s\n' "$*" >&2; exit 1; }

# find_mdbook: the path of mdBook of that version.
find_mdbook() {
  local program
  for program in target/mdbook/bin/mdbook mdbook; do
    if [[ "$("$program" --version 2>/dev/null || true)" == "mdbook v$version" ]]; then echo "$program"; return; fi
  done
  # Without a file watcher and a server. A debug build compiles in half the time, and builds this book in seconds.
  "${CARGO:-cargo}" install --quiet --locked --debug --no-default-features --features search --root target/mdbook "mdbook@$version" >&2
  echo target/mdbook/bin/mdbook
}

rm -rf "$site/src" "$site/book"
mkdir -p "$site/src"
cp site/book.toml site/style.css "$site/"

# The table of contents, with a line for each rule below that of the list of rules.
awk '
  { print }
  /\.\.\/policies\/rules\/README\.md/ {
    while ((getline line < "policies/rules/README.md") > 0) {
      if (split(line, cell, / *\| */) > 3 && match(cell[2], /^\[MUL[0-9]+\]\([^)]*\)/)) {
        printf "  - [%s %s](../policies/rules/%s)\n", substr(cell[2], 2, 6), cell[3], substr(cell[2], 10, RLENGTH - 10)
      }
    }
  }' docs/SUMMARY.md >"$site/SUMMARY.md"

# Every page that it lists, with links to where the pages and files are in the site.
: >"$site/files"
mapfile -t pages < <(grep -o '](\([^)]*\.md\))' "$site/SUMMARY.md" | sed 's/^](//; s/)$//; s#^#docs/#; s#^docs/\.\./##')
missing=()
for page in "${pages[@]}"; do
  [[ -f $page ]] || missing+=("$page")
done
((${#missing[@]} == 0)) || die "docs/SUMMARY.md lists pages that do not exist: ${missing[*]}"
printf '%s\n' "${pages[@]}" >"$site/pages"
for page in docs/SUMMARY.md "${pages[@]}"; do
  from=$page
  [[ $page != docs/SUMMARY.md ]] || from=$site/SUMMARY.md
  awk -v page="$page" -v pages="$site/pages" -v files="$site/files" -v site="$site/src" -f site/links.awk "$from" || die "$page: see above"
done

# Files that pages link to; those that a browser would download get the name of a text.
sort -u "$site/files" | while IFS=$'\t' read -r from to; do
  mkdir -p "$site/src/$(dirname "$to")"
  cp "$from" "$site/src/$to"
done

# Reports pages below docs/ that docs/SUMMARY.md does not list.
find docs -name '*.md' ! -path docs/SUMMARY.md | sort | comm -23 - <(sort "$site/pages") | sed 's/^/site: not in docs\/SUMMARY.md: /' >&2

repository=${REPOSITORY:-$(sed -n 's/^repository = "\(.*\)"$/\1/p' Cargo.toml)}
if [[ -n $repository ]]; then
  export MDBOOK_OUTPUT__HTML__GIT_REPOSITORY_URL=$repository
  export MDBOOK_OUTPUT__HTML__EDIT_URL_TEMPLATE="$repository/edit/main/{path}"
fi
"$(find_mdbook)" build "$site" >"$site/mdbook.log" 2>&1 || { cat "$site/mdbook.log" >&2; die "mdBook failed"; }
if [[ -n $repository ]]; then
  edit=$repository/edit/main
  find "$site/book" -name '*.html' -exec sed -i \
    -e "s#$edit/src/reference/rules/#$edit/policies/rules/#; s#$edit/src/reference/chart.md#$edit/charts/mullion/README.md#" \
    -e "s#$edit/src/project/#$edit/#; s#$edit/src/#$edit/docs/#; s#\($edit/[^\"]*\)index\.md\"#\1README.md\"#" {} +
fi
echo "$site/book"
