"use strict";
// The table of threatened rows: sort by a column, filter, turn pages. The server-side rows stay
// when scripts are off; texts go into the page as text, never as markup.
(() => {
  const store = document.getElementById("rows-data");
  for (const details of document.querySelectorAll("details")) {
    window.addEventListener("beforeprint", () => { details.open = true; });
  }
  if (!store) return;

  const { columns, rows } = JSON.parse(store.textContent);
  const find = (id) => document.getElementById(id);
  const table = find("rows-table");
  const body = table.tBodies[0];
  const [form, text, threat, belief, size] =
    ["rows-controls", "rows-text", "rows-threat", "rows-belief", "rows-size"].map(find);
  const [back, next, status] = ["rows-back", "rows-next", "rows-status"].map(find);
  const place = Object.fromEntries(columns.map((column, i) => [column.name, i]));
  const state = { by: place.Ti, down: true, page: 0 };

  const whole = new Intl.NumberFormat("en-US", { maximumFractionDigits: 0 });
  const three = (x) => {
    if (Math.abs(x) >= 999.5) return whole.format(x);
    if (x !== 0 && Math.abs(x) < 1e-4) return x.toExponential(2);
    const digits = x === 0 ? 2 : Math.max(0, 2 - Math.floor(Math.log10(Math.abs(x)) + 1e-12));
    return x.toFixed(digits);
  };
  const share = (x) => {
    if (x > 0 && x < 0.0005) return "<0.1%";
    if (x >= 0.9995 && x < 1) return ">99.9%";
    return (100 * x).toFixed(1) + "%";
  };
  const show = {
    row: String, text: String, count: (x) => whole.format(x), number: three, share,
    ratio: (x) => "× " + three(x),
  };

  const asked = (input) => (input.value.trim() === "" ? -Infinity : Number(input.value));
  const texts = columns.map((column, i) => (column.kind === "text" ? i : -1)).filter((i) => i >= 0);
  const fits = (row, wanted) =>
    wanted === "" || String(row[place.row]) === wanted ||
    texts.some((i) => row[i].toLowerCase().includes(wanted));
  const compare = (a, b) => {
    const [x, y] = [a[state.by], b[state.by]];
    if (x === y) return a[place.row] - b[place.row];
    if (x === null || y === null) return x === null ? 1 : -1;  // unknown values come last
    const order = typeof x === "string" ? x.localeCompare(y, "en", { numeric: true }) : x - y;
    return state.down ? -order : order;
  };

  function refresh() {
    const wanted = text.value.trim().toLowerCase();
    const [least, surest] = [asked(threat), asked(belief) / 100];
    const found = rows
      .filter((row) => row[place.Ti] >= least && row[place.p_A] >= surest && fits(row, wanted))
      .sort(compare);
    const length = Number(size.value);
    const pages = Math.max(1, Math.ceil(found.length / length));
    state.page = Math.min(state.page, pages - 1);
    const start = state.page * length;
    const shown = found.slice(start, start + length);
    body.replaceChildren(...shown.map((row) => {
      const line = document.createElement("tr");
      row.forEach((value, i) => {
        const cell = line.insertCell();
        cell.textContent = value === null ? "–" : show[columns[i].kind](value);
        if (columns[i].kind !== "text") cell.className = "num";
      });
      return line;
    }));
    status.textContent = found.length === 0 ? "No row fits." :
      `${whole.format(start + 1)}–${whole.format(start + shown.length)} of ` +
      `${whole.format(found.length)} ${found.length === 1 ? "row" : "rows"}`;
    back.disabled = state.page === 0;
    next.disabled = state.page >= pages - 1;
    [...table.tHead.rows[0].cells].forEach((head, i) => head.setAttribute(
      "aria-sort", i !== state.by ? "none" : state.down ? "descending" : "ascending"));
  }

  [...table.tHead.rows[0].cells].forEach((head, i) => {
    const button = document.createElement("button");
    button.type = "button";
    button.textContent = head.textContent;
    button.addEventListener("click", () => {
      // Numbers are looked at from the largest, row numbers and texts from the first.
      const downFirst = !["row", "text"].includes(columns[i].kind);
      state.down = state.by === i ? !state.down : downFirst;
      state.by = i;
      state.page = 0;
      refresh();
    });
    head.replaceChildren(button);
  });
  form.addEventListener("input", () => { state.page = 0; refresh(); });
  form.addEventListener("submit", (event) => event.preventDefault());
  form.addEventListener("reset", () => setTimeout(() => { state.page = 0; refresh(); }));
  back.addEventListener("click", () => { state.page -= 1; refresh(); });
  next.addEventListener("click", () => { state.page += 1; refresh(); });
  for (const element of [form, back, next]) element.hidden = false;
  refresh();
})();
