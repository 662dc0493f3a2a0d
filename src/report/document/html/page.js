// Sorts and filters the tables that are on the page. Without it they are plain tables.
"use strict";
(() => {
  const make = (name, properties, ...children) => {
    const element = Object.assign(document.createElement(name), properties);
    element.append(...children);
    return element;
  };
  const wide = matchMedia("(min-width: 961px)");
  const contents = document.querySelector("nav details");
  const fold = () => { contents.open = wide.matches; };
  wide.addEventListener("change", fold);
  fold();
  // The link of a narrow page leads away from the list.
  contents.addEventListener("click", (event) => { if (event.target.closest("a") && !wide.matches) contents.open = false; });

  const collator = new Intl.Collator("en", { numeric: true });
  const word = (row, at) => row.cells[at].textContent.trim();
  const value = (row, at) => row.cells[at].dataset.sort ?? word(row, at);

  // Makes the headers buttons; a narrow page, which has no headers, gets the list of orders that is returned.
  const sortable = (table) => {
    const body = table.tBodies[0];
    const orders = make("select", { className: "narrow", ariaLabel: "Order of the rows" }, make("option", {}, "Order: as written"));
    orders.addEventListener("input", () => orders.selectedOptions[0].button?.click());
    [...table.tHead.rows[0].cells].forEach((head, at) => {
      if (!head.textContent.trim()) return;
      const numeric = head.classList.contains("n");
      const button = make("button", { type: "button" }, ...head.childNodes);
      head.append(button);
      orders.append(make("option", { button }, `Order: ${head.textContent}`));
      head.ariaSort = "none";
      button.addEventListener("click", () => {
        // Numbers begin with the greatest, texts with the first letter.
        const now = head.ariaSort;
        const down = now === "none" ? numeric : now === "ascending";
        for (const other of table.tHead.rows[0].cells) if (other.ariaSort) other.ariaSort = "none";
        head.ariaSort = down ? "descending" : "ascending";
        const number = (row) => Number(value(row, at).replace(/[^0-9.-]/g, "")) || 0;
        const compare = numeric ? (one, two) => number(one) - number(two) : (one, two) => collator.compare(value(one, at), value(two, at));
        const rows = [...body.rows].sort(compare);
        if (down) rows.reverse();
        body.append(...rows);
      });
    });
    return orders;
  };

  const filterable = (table, orders) => {
    const rows = [...table.tBodies[0].rows];
    const what = table.dataset.rows;
    const label = `Filter ${what}`;
    const search = make("input", { type: "search", placeholder: label, ariaLabel: label });
    const status = make("span", { role: "status" });
    const choices = [];
    [...table.tHead.rows[0].cells].forEach((head, at) => {
      if (!head.hasAttribute("data-choose")) return;
      const values = [...new Set(rows.map((row) => word(row, at)))].sort(collator.compare);
      if (values.length < 2 || values.length > 60) return;
      const name = head.textContent;
      const select = make("select", { ariaLabel: `${label} by ${name}` }, make("option", { value: "" }, `${name}: all`));
      for (const one of values) select.append(make("option", { value: one }, one || "none"));
      choices.push({ at, select });
    });
    const texts = new Map();
    const text = (row) => {
      if (!texts.has(row)) texts.set(row, row.textContent.toLowerCase());
      return texts.get(row);
    };
    const apply = () => {
      const words = search.value.toLowerCase().split(/\s+/).filter(Boolean);
      const chosen = choices.filter(({ select }) => select.selectedIndex > 0);
      let shown = 0;
      for (const row of rows) {
        const fits = chosen.every(({ at, select }) => word(row, at) === select.value) && words.every((word) => text(row).includes(word));
        row.hidden = !fits;
        shown += fits ? 1 : 0;
      }
      status.textContent = `${shown.toLocaleString("en")} of ${rows.length.toLocaleString("en")} ${what}`;
    };
    search.addEventListener("input", apply);
    for (const { select } of choices) select.addEventListener("input", apply);
    const tools = make("div", { className: "tools" }, search, ...choices.map(({ select }) => select), orders, status);
    table.closest(".table").before(tools);
    apply();
    return { search, apply };
  };

  const filters = new Map();
  for (const table of document.querySelectorAll(".table > table")) {
    const orders = sortable(table);
    if (table.dataset.rows && table.tBodies[0].rows.length > 1) filters.set(table.id, filterable(table, orders));
  }
  // A number leads to the rows that it counts.
  document.addEventListener("click", (event) => {
    const link = event.target.closest("a[data-find]");
    const filter = link && filters.get(link.hash.slice(1));
    if (!filter) return;
    filter.search.value = link.dataset.find;
    filter.apply();
  });
  const raw = document.querySelectorAll("details.raw");
  let closed = [];
  addEventListener("beforeprint", () => {
    closed = [...raw].filter((one) => !one.open);
    for (const one of closed) one.open = true;
  });
  addEventListener("afterprint", () => { for (const one of closed) one.open = false; });
})();
