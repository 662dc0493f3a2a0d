# Writes a page to its place in the site, with links to where other pages and files are in the site.
#   page   the page, by its path in the repository
#   pages  a file with the pages of the site
#   site   the folder of the site's pages
#   files  a file that gets a line for each other file that the page links to: its path, and its path in the site
# Exit status 1 if a link leads to a page that is not in the site.

BEGIN {
  while ((getline line < pages) > 0) is_page[line] = 1
  folder = parent(page)
  site_folder = parent(place(page))
  output = site "/" place(page)
  system("mkdir -p '" parent(output) "'")
}

/^ *```/ { fenced = !fenced }

{ print fenced ? $0 : rewritten($0) > output }

END { exit wrong }

function parent(path) { return path ~ /\// ? substr(path, 1, match(path, /\/[^\/]*$/) - 1) : "" }

# Where a page or file is in the site. mdBook does not turn links to README.md into links to index.html.
function place(path) {
  sub(/README\.md$/, "index.md", path)
  if (path ~ /^docs\//) return substr(path, 6)
  if (path ~ /^policies\/rules\//) return "reference/rules/" substr(path, 16)
  if (path == "charts/mullion/index.md") return "reference/chart.md"
  if (path ~ /\.md$/) return "project/" path
  return "files/" path (path ~ /\.(json|svg|png)$/ ? "" : ".txt")
}

# The path without `.` and `..`.
function normal(path,   part, count, at, kept, depth, result) {
  count = split(path, part, "/")
  depth = 0
  for (at = 1; at <= count; at++) {
    if (part[at] == "..") depth--
    else if (part[at] != "." && part[at] != "") kept[++depth] = part[at]
  }
  for (at = 1; at <= depth; at++) result = result (at > 1 ? "/" : "") kept[at]
  return result
}

# The path from a folder to a file.
function relative(from, to,   one, other, ones, others, at, result) {
  ones = from == "" ? 0 : split(from, one, "/")
  others = split(to, other, "/")
  for (at = 1; at <= ones && at < others && one[at] == other[at]; at++) ;
  for (; ones >= at; ones--) result = result "../"
  for (; at <= others; at++) result = result other[at] (at < others ? "/" : "")
  return result
}

# The target of a link in the site; empty if the site does not have it.
function target(link,   anchor, path) {
  if (link == "" || link ~ /^#/ || link ~ /^[a-z]+:/) return link
  anchor = ""
  if (match(link, /#/)) { anchor = substr(link, RSTART); link = substr(link, 1, RSTART - 1) }
  path = normal(folder "/" link)
  if (system("test -d '" path "'") == 0) {
    if (!((path "/README.md") in is_page)) return ""
    path = path "/README.md"
  }
  if (path ~ /\.md$/) {
    if (!(path in is_page)) {
      print "site: " page " links to " path ", which docs/SUMMARY.md does not list" > "/dev/stderr"
      wrong = 1
    }
  } else print path "\t" place(path) >> files
  return relative(site_folder, place(path)) anchor
}

# The line with every `](link)` and `src="link"` rewritten. A link to what the site does not have becomes its text.
function rewritten(line,   result, link, to, open) {
  result = ""
  while (match(line, /\]\([^)]*\)|src="[^"]*"/)) {
    result = result substr(line, 1, RSTART - 1)
    link = substr(line, RSTART, RLENGTH)
    line = substr(line, RSTART + RLENGTH)
    if (link ~ /^src/) { result = result "src=\"" target(substr(link, 6, length(link) - 6)) "\""; continue }
    link = substr(link, 3, length(link) - 3)
    to = target(link)
    if (to == "" && link != "") {
      open = match(result, /\[[^\[]*$/)
      result = substr(result, 1, open - 1) substr(result, open + 1)
    } else result = result "](" to ")"
  }
  return result line
}
