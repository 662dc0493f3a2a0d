#!/usr/bin/env bash
# Draws docs/images/demo.svg, the output of `make demo` as a terminal:
#   make demo | docs/images/demo.sh > docs/images/demo.svg
# Lines of the build and the second denial are left out, and long lines are wrapped.
set -euo pipefail

awk '
  BEGIN { columns = 66; top = 58; step = 17; count = 0 }

  function escaped(text) {
    gsub(/&/, "\\&amp;", text); gsub(/</, "\\&lt;", text); gsub(/>/, "\\&gt;", text)
    return text
  }
  function add(text, class) {
    count++
    body = body sprintf("    <text x=\"16\" y=\"%d\"%s xml:space=\"preserve\">%s</text>\n", top + count * step, class ? " class=\"" class "\"" : "", escaped(text))
  }
  # Wraps at spaces; lines after the first begin with `indent` spaces.
  function wrapped(text, indent, class,    at, first) {
    first = 1
    while (length(text) > columns) {
      at = columns + 1
      while (at > indent + 12 && substr(text, at, 1) != " ") at--
      if (substr(text, at, 1) != " ") at = columns + 1
      add(substr(text, 1, at - 1), class)
      text = sprintf("%*s", indent, "") substr(text, substr(text, at, 1) == " " ? at + 1 : at)
    }
    add(text, class)
  }

  /^WITHOUT MULLION/ { shown = 1 }
  !shown { next }
  /^demo: / { next }
  # The denial of a Deployment repeats that of the Pod.
  /^Deployment [^ ]+$/ { skipped = 1 }
  /^Nodes/ { skipped = 0 }
  skipped { next }
  /^(exit|make)/ { next }
  { sub(/[ ]+$/, "") }
  # At most one empty line.
  $0 == "" { pending = 1; next }
  pending { if (count) add("", ""); pending = 0 }
  /^(WITHOUT|WITH) MULLION|^Nodes|^Pod [^ ]+$/ { wrapped($0, 0, "title"); next }
  # A row of a table. If it is too long, the nodes are below the workload.
  /^       WORKLOAD/ { indent = index($0, "WHERE") - 1 }
  /^(WRONG|ok)  |^       WORKLOAD/ {
    class = /^WRONG/ ? "wrong" : /^ok/ ? "ok" : "quiet"
    if (length($0) <= columns) { add($0, class); next }
    head = substr($0, 1, indent); sub(/[ ]+$/, "", head)
    add(head, class)
    wrapped("         " substr($0, indent + 1), 9, "quiet")
    next
  }
  { wrapped($0, 2, "") }

  END {
    height = top + count * step + 24
    printf "<svg xmlns=\"http://www.w3.org/2000/svg\" viewBox=\"0 0 520 %d\" width=\"520\" height=\"%d\" role=\"img\" aria-labelledby=\"title desc\">\n", height, height
    print "  <title id=\"title\">Output of make demo</title>"
    print "  <desc id=\"desc\">A terminal. Without Mullion, pods of the same manifests are on nodes that cannot run them. With Mullion, all pods are on nodes that can run them, and two manifests that cannot work on Windows are denied.</desc>"
    print "  <style>"
    print "    text { font-family: ui-monospace, Menlo, Consolas, \"DejaVu Sans Mono\", monospace; font-size: 12px; fill: #e6edf3; white-space: pre }"
    print "    .title { font-weight: bold; fill: #ffffff } .quiet { fill: #9da7b3 } .wrong { fill: #ff9b94 } .ok { fill: #7ee787 }"
    print "  </style>"
    printf "  <rect width=\"520\" height=\"%d\" rx=\"8\" fill=\"#0d1117\" stroke=\"#57606a\"/>\n", height
    print "  <circle cx=\"20\" cy=\"20\" r=\"6\" fill=\"#57606a\"/><circle cx=\"40\" cy=\"20\" r=\"6\" fill=\"#57606a\"/><circle cx=\"60\" cy=\"20\" r=\"6\" fill=\"#57606a\"/>"
    print "  <g>"
    printf "    <text x=\"16\" y=\"%d\" xml:space=\"preserve\">$ make demo</text>\n", top - 4
    printf "%s", body
    print "  </g>"
    print "</svg>"
  }
'
