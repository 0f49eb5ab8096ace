"use strict";
(() => {
  const collator = new Intl.Collator("en", { numeric: true });
  const missing = new Set(["", "\u2013"]);

  function key(row, column) {
    const cell = row.cells[column];
    const text = (cell.dataset.sort ?? cell.textContent).trim();
    if (missing.has(text)) return null;
    const number = Number(text.replace("\u2212", "-").replaceAll(",", ""));
    return Number.isNaN(number) ? text : number;
  }

  function compare(a, b) {
    if (typeof a === "number" && typeof b === "number") return a - b;
    return collator.compare(String(a), String(b));
  }

  function ordered(rows, column, direction) {
    if (!direction) return rows;
    const keyed = rows.map((row) => [key(row, column), row]);
    keyed.sort(([a], [b]) => {
      if (a === null || b === null) return (a === null) - (b === null);
      return direction === "ascending" ? compare(a, b) : compare(b, a);
    });
    return keyed.map(([, row]) => row);
  }

  const next = { null: "ascending", ascending: "descending", descending: null };

  function prepare(table) {
    const body = table.tBodies[0];
    const rows = [...body.rows];
    const heads = [...table.tHead.rows[0].cells];
    heads.forEach((head, column) => {
      const button = document.createElement("button");
      button.type = "button";
      button.append(...head.childNodes);
      head.append(button);
      button.addEventListener("click", () => {
        const direction = next[head.getAttribute("aria-sort")];
        for (const other of heads) other.removeAttribute("aria-sort");
        if (direction) head.setAttribute("aria-sort", direction);
        body.append(...ordered(rows, column, direction));
      });
    });
    const hint = document.createElement("span");
    hint.className = "unseen";
    hint.textContent = "The buttons in the column headers sort the rows.";
    table.caption.append(hint);
  }

  for (const table of document.querySelectorAll("table.sortable")) prepare(table);
})();
