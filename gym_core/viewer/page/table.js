// A long table: only the rows on the screen are elements.

import { h, replace, styled } from "./dom.js";

const ROW_HEIGHT = 40;
const AHEAD = 12;

/** `columns`: {name, title, cell(row), sort(row), width, align, hide}; `link(row)` gives the address of a row. */
export function makeTable({ columns, link, testid, onSort }) {
  const template = columns.map((column) => column.width).join(" ");
  const head = h("div", { class: "table-head", role: "row" });
  const body = h("div", { class: "table-body", role: "rowgroup" });
  const element = styled(h("div", { class: "table", role: "table", testid }, head, body), { "--columns": template });
  const state = { rows: [], selected: -1, first: -1, last: -1, drawn: new Map(), sort: { name: "", down: false } };

  function drawHead() {
    replace(
      head,
      columns.map((column) => {
        const isSorted = state.sort.name === column.name;
        return h(
          "button",
          {
            type: "button",
            class: `th ${column.align || ""} ${column.hide || ""}`,
            role: "columnheader",
            title: column.title,
            "aria-sort": isSorted ? (state.sort.down ? "descending" : "ascending") : "none",
            testid: `sort-${column.name}`,
            on: { click: () => sortBy(column.name) },
          },
          column.label,
          isSorted ? h("span", { class: "arrow" }, state.sort.down ? "\u2193" : "\u2191") : null,
        );
      }),
    );
  }

  function sortBy(name) {
    const isSame = state.sort.name === name;
    if (isSame && state.sort.down) state.sort = { name: "", down: false };
    else state.sort = { name, down: isSame };
    drawHead();
    onSort();
  }

  function sorted(rows) {
    const column = columns.find((each) => each.name === state.sort.name);
    if (!column) return rows;
    const sign = state.sort.down ? -1 : 1;
    return rows.map((row, place) => ({ row, place, key: column.sort(row) })).sort((a, b) => sign * compare(a.key, b.key) || a.place - b.place).map(({ row }) => row);
  }

  function setRows(rows) {
    const kept = state.rows[state.selected];
    state.rows = sorted(rows);
    state.selected = kept ? state.rows.findIndex((row) => row.id === kept.id) : -1;
    state.first = -1;
    styled(body, { height: `${state.rows.length * ROW_HEIGHT}px` });
    element.setAttribute("aria-rowcount", String(state.rows.length));
    draw();
    return state.rows;
  }

  function draw() {
    if (!element.isConnected) return;
    const top = body.getBoundingClientRect().top;
    const first = Math.max(0, Math.floor(-top / ROW_HEIGHT) - AHEAD);
    const last = Math.min(state.rows.length, Math.max(first + AHEAD, Math.ceil((innerHeight - top) / ROW_HEIGHT) + AHEAD));
    if (first === state.first && last === state.last) return;
    state.first = first;
    state.last = Math.max(first, last);
    const before = state.drawn;
    state.drawn = new Map();
    state.rows.slice(first, state.last).forEach((row, n) => {
      const place = first + n;
      const isSelected = place === state.selected;
      const known = before.get(row.id);
      const isSame = known && known.row === row && known.place === place && known.isSelected === isSelected;
      state.drawn.set(row.id, isSame ? known : { row, place, isSelected, element: drawRow(row, place) });
    });
    // What stays on the screen stays the same element: a click may be half done.
    const kept = new Set([...state.drawn.values()].map((each) => each.element));
    for (const child of [...body.children]) if (!kept.has(child)) child.remove();
    [...kept].forEach((each, n) => {
      if (body.children[n] !== each) body.insertBefore(each, body.children[n] || null);
    });
  }

  function drawRow(row, place) {
    const address = link(row);
    const cells = columns.map((column) => h("span", { class: `td ${column.align || ""} ${column.hide || ""}`, role: "cell", testid: `cell-${column.name}` }, column.cell(row)));
    const shown = h(
      address ? "a" : "div",
      { class: "tr", role: "row", href: address, "aria-rowindex": place + 1, "aria-selected": place === state.selected ? "true" : null, testid: "row", "data-id": row.id },
      cells,
    );
    return styled(shown, { top: `${place * ROW_HEIGHT}px` });
  }

  function select(place) {
    if (!state.rows.length) return;
    state.selected = Math.max(0, Math.min(state.rows.length - 1, place));
    const top = body.getBoundingClientRect().top + state.selected * ROW_HEIGHT;
    const margin = 110;
    if (top < margin) scrollBy(0, top - margin);
    else if (top + ROW_HEIGHT > innerHeight - 12) scrollBy(0, top + ROW_HEIGHT - innerHeight + 12);
    state.first = -1;
    draw();
  }

  addEventListener("scroll", draw, { passive: true });
  addEventListener("resize", draw, { passive: true });
  drawHead();
  return {
    element,
    setRows,
    draw,
    selectRow: (id) => {
      const place = state.rows.findIndex((row) => row.id === id);
      if (place >= 0) select(place);
    },
    keys: {
      j: () => select(state.selected + 1),
      k: () => select(Math.max(0, state.selected - 1)),
      ArrowDown: () => select(state.selected + 1),
      ArrowUp: () => select(Math.max(0, state.selected - 1)),
      g: () => select(0),
      G: () => select(state.rows.length - 1),
      Enter: () => {
        const row = state.rows[state.selected];
        if (row && link(row)) location.hash = link(row);
      },
    },
    close: () => {
      removeEventListener("scroll", draw);
      removeEventListener("resize", draw);
    },
  };
}

function compare(a, b) {
  if (a === b) return 0;
  if (a === null || a === undefined) return 1;
  if (b === null || b === undefined) return -1;
  return a < b ? -1 : 1;
}
