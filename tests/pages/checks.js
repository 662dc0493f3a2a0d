// Checks a page of a survey or of a plan. Each function returns a list of errors.

const all = (selector, root = document) => [...root.querySelectorAll(selector)];
const name = (element) => `${element.tagName.toLowerCase()}${element.id ? `#${element.id}` : ""}.${element.getAttribute("class") ?? ""}`;

// Checks that nothing is wider than the page, except in boxes that scroll by themselves.
function overflow() {
  const width = document.documentElement.clientWidth;
  const found = [];
  if (document.documentElement.scrollWidth > width) found.push(`the page is ${document.documentElement.scrollWidth} wide, the window ${width}`);
  for (const element of all("main *, nav *")) {
    if (element.closest(".table, .picture, .skip")) continue;
    const box = element.getBoundingClientRect();
    if (box.width > 0 && box.right > width + 1) found.push(`${name(element)} ends at ${box.right}`);
  }
  return found.slice(0, 10);
}

// Checks that every column of every table is visible without scrolling.
function tablesFit() {
  const found = [];
  for (const box of all(".table")) {
    if (box.scrollWidth > box.clientWidth) found.push(`${box.querySelector("table").id} is ${box.scrollWidth} wide, its box ${box.clientWidth}`);
  }
  return found;
}

// Checks that no line breaks in the middle of a word. Longer words have places where they break.
function wordsAreWhole() {
  const found = [];
  const lines = (range) => new Set([...range.getClientRects()].map((box) => Math.round(box.bottom))).size;
  const texts = document.createTreeWalker(document.querySelector("main"), NodeFilter.SHOW_TEXT);
  const range = document.createRange();
  for (let text = texts.nextNode(); text; text = texts.nextNode()) {
    if (text.parentElement.closest("svg, pre, script, style")) continue;
    range.selectNodeContents(text);
    if (lines(range) < 2) continue;
    for (const word of text.data.matchAll(/[\p{L}\p{N}]+/gu)) {
      range.setStart(text, word.index);
      range.setEnd(text, word.index + word[0].length);
      if (lines(range) > 1) found.push(`${word[0]} breaks in ${text.parentElement.closest("table")?.id ?? name(text.parentElement)}`);
    }
  }
  return found.slice(0, 10);
}

// Checks that each tile with a number leads to the section with its list.
function tilesLead() {
  const found = [];
  for (const tile of all(".tiles li")) {
    const number = tile.querySelector("b").textContent;
    const link = tile.querySelector("a");
    if (link && !document.getElementById(link.getAttribute("href").slice(1))) found.push(`${tile.textContent} leads nowhere`);
    if (!link && /[1-9]/.test(number)) found.push(`${tile.textContent} is no link`);
  }
  if (all(".tiles li").length < 5) found.push("there are no tiles");
  return found;
}

// Checks that no line of a command is wrapped.
function commandsAreWhole() {
  return all(".command pre").filter((pre) => getComputedStyle(pre).whiteSpace !== "pre").map((pre) => `wrapped: ${pre.textContent}`).slice(0, 10);
}

function structure() {
  const found = [];
  const ids = all("[id]").map((element) => element.id);
  for (const id of new Set(ids)) if (ids.filter((one) => one === id).length > 1) found.push(`two elements have the id ${id}`);
  for (const link of all("a[href^='#']")) if (!document.getElementById(link.getAttribute("href").slice(1))) found.push(`no ${link.getAttribute("href")}`);
  for (const label of all("[aria-labelledby]")) {
    for (const id of label.getAttribute("aria-labelledby").split(" ")) if (!document.getElementById(id)) found.push(`no label ${id}`);
  }
  for (const table of all("table")) {
    for (const head of all("th", table)) if (!["col", "row"].includes(head.scope)) found.push(`${table.id}: a th without scope`);
    for (const row of table.tBodies[0].rows) if (all("th[scope=row]", row).length !== 1) found.push(`${table.id}: a row without header`);
  }
  const levels = all("h1, h2, h3").map((heading) => Number(heading.tagName[1]));
  levels.forEach((level, at) => { if (level > (levels[at - 1] ?? 0) + 1) found.push(`h${level} after h${levels[at - 1]}`); });
  if (all("h1").length !== 1) found.push("not one h1");
  for (const control of all("input, select")) if (!control.ariaLabel) found.push(`${name(control)} has no label`);
  return found.slice(0, 10);
}

// Checks that text has the contrast that WCAG AA requires.
function contrast() {
  const canvas = document.createElement("canvas").getContext("2d", { willReadFrequently: true });
  const parse = (color) => { canvas.clearRect(0, 0, 1, 1); canvas.fillStyle = color; canvas.fillRect(0, 0, 1, 1); return [...canvas.getImageData(0, 0, 1, 1).data]; };
  const light = ([r, g, b]) => [r, g, b].map((v) => v / 255).map((v) => (v <= 0.03928 ? v / 12.92 : ((v + 0.055) / 1.055) ** 2.4)).reduce((sum, v, at) => sum + v * [0.2126, 0.7152, 0.0722][at], 0);
  const behind = (element) => {
    for (let at = element; at; at = at.parentElement) {
      const color = parse(getComputedStyle(at).backgroundColor);
      if (color[3] > 250) return color;
    }
    return [255, 255, 255, 255];
  };
  const found = new Set();
  const seen = new Set();
  for (const element of all("body *")) {
    const own = [...element.childNodes].some((node) => node.nodeType === 3 && node.textContent.trim());
    if (!own || element.closest("script, style, desc, title, option, .skip")) continue;
    const style = getComputedStyle(element);
    const svg = element.closest("svg");
    const front = svg ? style.fill : style.color;
    const square = element.matches("svg .in") ? element.previousElementSibling : null;
    const back = square ? parse(getComputedStyle(square).fill) : behind(element);
    const pair = `${front} ${back}`;
    if (seen.has(pair)) continue;
    seen.add(pair);
    const [one, two] = [light(parse(front)), light(back)].sort((a, b) => b - a);
    const ratio = (one + 0.05) / (two + 0.05);
    if (ratio < 4.5) found.add(`${name(element)} "${element.textContent.trim().slice(0, 30)}": ${ratio.toFixed(2)} (${front} on ${back})`);
  }
  return [...found].slice(0, 10);
}

const cells = (table, at) => [...document.getElementById(table).tBodies[0].rows].map((row) => row.cells[at].innerText.trim());

// Checks the order of a column's values and its `aria-sort`. `click`: clicks on the header first.
function column(table, at, values, sort, click = false) {
  const head = document.getElementById(table).tHead.rows[0].cells[at];
  if (click) head.querySelector("button").click();
  const found = cells(table, at);
  const wrong = [];
  if (values && JSON.stringify(found) !== JSON.stringify(values)) wrong.push(`${table}: ${found.slice(0, 20)}`);
  if (head.getAttribute("aria-sort") !== sort) wrong.push(`aria-sort is ${head.getAttribute("aria-sort")}`);
  return wrong;
}

// Checks that a click on a header sorts, that another click reverses the order, and that no row is lost.
function sorts() {
  const found = [];
  for (const table of all(".table > table")) {
    const rows = () => [...table.tBodies[0].rows];
    const before = new Set(rows());
    for (const head of table.tHead.rows[0].cells) {
      const button = head.querySelector("button");
      if (!button) { if (head.innerText.trim()) found.push(`${table.id}: ${head.innerText} has no button`); continue; }
      const orders = [0, 1].map(() => { button.click(); return [head.ariaSort, rows()]; });
      const [[one, first], [two, second]] = orders;
      if (new Set([one, two]).size !== 2 || ![one, two].every((sort) => ["ascending", "descending"].includes(sort))) found.push(`${table.id}: ${one}, ${two}`);
      const key = (row) => row.cells[head.cellIndex].dataset.sort ?? row.cells[head.cellIndex].textContent.trim();
      const keys = first.map(key);
      if (new Set(keys).size > 1 && JSON.stringify(keys) === JSON.stringify(second.map(key))) found.push(`${table.id}: ${head.innerText} has one order`);
      if (rows().length !== before.size || rows().some((row) => !before.has(row))) found.push(`${table.id}: rows are lost`);
      if (all("th[aria-sort=ascending], th[aria-sort=descending]", table).length !== 1) found.push(`${table.id}: not one column is sorted`);
    }
  }
  return found.slice(0, 10);
}

const tools = (table) => document.getElementById(table).closest(".table").previousElementSibling;
const visible = (table) => [...document.getElementById(table).tBodies[0].rows].filter((row) => row.offsetParent !== null && getComputedStyle(row).display !== "none");

// Filters by text and returns the number of rows that are left.
function filter(table, text) {
  const input = tools(table).querySelector("input");
  input.value = text;
  input.dispatchEvent(new Event("input"));
  return visible(table).length;
}

function filters() {
  const found = [];
  const expect = (what, is, should) => { if (is !== should) found.push(`${what}: ${is}, not ${should}`); };
  const status = (table) => tools(table).querySelector("[role=status]").textContent;
  expect("all workloads", status("workloads-table"), "22 of 22 workloads");
  expect("one word", filter("workloads-table", "BILLING"), 4);
  expect("two words", filter("workloads-table", "billing ledger"), 1);
  expect("what is said", status("workloads-table"), "1 of 22 workloads");
  expect("no row", filter("workloads-table", "no such thing"), 0);
  expect("all again", filter("workloads-table", ""), 22);
  const system = all("select", tools("workloads-table"))[0];
  system.value = "windows";
  system.dispatchEvent(new Event("input"));
  expect("chosen", visible("workloads-table").length, 15);
  expect("chosen and a word", filter("workloads-table", "monitoring"), 1);
  // The number of findings of a code is a link to them.
  document.querySelector("a[data-find='SUR302']").click();
  expect("findings of a code", visible("findings-table").length, 3);
  expect("in the search", tools("findings-table").querySelector("input").value, "SUR302");
  const severity = all("select", tools("findings-table"))[0];
  expect("severities", [...severity.options].map((option) => option.text).join(), "Severity: all,Notice,Problem,Warning");
  return found;
}

function planFilters() {
  const found = [];
  const expect = (what, is, should) => { if (is !== should) found.push(`${what}: ${is}, not ${should}`); };
  const status = tools("worklist-table").querySelector("[role=status]").textContent;
  expect("all images", status, "15 of 15 images");
  expect("one word", filter("worklist-table", "BILLING"), 3);
  expect("all again", filter("worklist-table", ""), 15);
  const selects = all("select", tools("worklist-table"));
  const names = selects.map((select) => select.options[0].text);
  expect("choices", names.join(), "Namespace: all,Owner: all,Step: all,Verdict: all,Order: as written");
  const verdict = selects[3];
  expect("verdicts", [...verdict.options].map((option) => option.value).join(), ",Another tag,Rebuild,Runs as is,Unknown");
  verdict.value = "Rebuild";
  verdict.dispatchEvent(new Event("input"));
  expect("to rebuild", visible("worklist-table").length, 2);
  const step = all("select", tools("edits-table"))[0];
  step.value = "3";
  step.dispatchEvent(new Event("input"));
  expect("edits of a step", visible("edits-table").length, 2);
  return found;
}

// Checks a plan with the styles for printing: every command is visible, and no control is.
function planPaper() {
  const found = [];
  if (all("pre").length < 20) found.push(`${all("pre").length} commands`);
  for (const pre of all("pre")) if (!pre.checkVisibility() || pre.getBoundingClientRect().height < 5) found.push(`not on paper: ${pre.textContent}`);
  for (const control of all(".tools, nav, .skip")) if (control.checkVisibility() && control.getClientRects().length > 0) found.push(`${name(control)} is on paper`);
  return found.slice(0, 10);
}

// Checks a page with the styles for printing.
function paper() {
  const found = [];
  const hidden = (selector) => all(selector).filter((element) => getComputedStyle(element).display !== "none" && element.getClientRects().length > 0);
  for (const selector of ["nav", ".tools", ".skip"]) if (hidden(selector).length > 0) found.push(`${selector} is on paper`);
  if (visible("workloads-table").length !== 22) found.push(`${visible("workloads-table").length} workloads are on paper`);
  for (const raw of all("details.raw pre")) if (!raw.checkVisibility() || raw.getBoundingClientRect().height < 5) found.push("a text of the cluster is not on paper");
  const page = getComputedStyle(document.body).backgroundColor;
  if (page !== "rgb(255, 255, 255)") found.push(`paper is ${page}`);
  return found.slice(0, 10);
}

// Checks that there are only elements and attributes of the page itself.
function harmless() {
  const elements = new Set(("html head meta title style body a div nav details summary ul li span main h1 h2 h3 dl dt dd section p b br em code table thead tbody tr th td "
    + "wbr button input select option figure figcaption svg desc rect text line footer pre script").split(" "));
  const attributes = new Set(("lang charset http-equiv content name class href aria-label aria-labelledby aria-sort open id role tabindex scope data-rows data-choose data-sort "
    + "data-find rel type placeholder value viewBox xmlns x y x1 x2 y1 y2 width height rx text-anchor hidden").split(" "));
  const found = new Set();
  for (const element of all("*")) {
    if (!elements.has(element.tagName.toLowerCase())) found.add(`element ${element.tagName}`);
    for (const { name: attribute, value } of element.attributes) {
      if (!attributes.has(attribute)) found.add(`attribute ${attribute} of ${element.tagName}`);
      if (attribute === "href" && !/^(#|https:\/\/)/.test(value)) found.add(`href ${value}`);
    }
  }
  if (document.scripts.length !== 1) found.add(`${document.scripts.length} scripts`);
  if (all("style").length !== 1) found.add("styles");
  if (!/^(Survey of|Plan to move) /.test(document.title)) found.add(`title ${document.title}`);
  return [...found];
}
