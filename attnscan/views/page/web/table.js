// The table: every head with its labels and scores, to sort, to search, and to save as CSV.

const TEXTS = ["label", "among_words"];
let shownColumns;

/** Which columns are shown: not 95 % intervals, which stand in the CSV and beside a head's scores. */
function columnsShown() {
  const bounds = scored.flatMap((id) => [`${id}_low`, `${id}_high`]);
  return ["head", ...facts.columns.slice(NAMES).filter((name) => !bounds.includes(name))];
}

const headings = { label_stays: "label stays", among_words: "among words", average: "average head" };

/** What columns are about, by their names: headings above the headings. */
const GROUPS = [
  ["", (name) => name === "head"],
  ["What it does", (name) => facts.columns.indexOf(name) < FIRST_SCORE],
  ["Scores", (name) => scored.includes(name)],
  ["Other numbers", () => true],
];
const groupOf = (name) => GROUPS.findIndex(([, has]) => has(name));

const tableView = {
  build() {
    find("scores").tHead.addEventListener("click", (event) => event.target.value && this.sortBy(event.target.value));
    find("scores").tBodies[0].addEventListener("click", (event) => {
      const button = event.target.closest("button");
      if (button) openHead(button.value, event);
    });
    steer(
      find("scores"),
      () => [...find("scores").tBodies[0].querySelectorAll("button")],
      () => 1,
    );
    find("find").addEventListener("input", (event) => change({ find: event.target.value }));
    find("label").addEventListener("change", (event) => change({ label: event.target.value }));
    find("save").addEventListener("click", () => this.save());
  },

  renew() {
    shownColumns = columnsShown();
    const cells = shownColumns.map((name) => {
      const button = make("button", { type: "button", value: name }, headings[name] || name);
      return make("th", { scope: "col", class: TEXTS.includes(name) || name === "head" ? "" : "number" }, button);
    });
    const groups = GROUPS.map(([title], group) => {
      const count = shownColumns.filter((name) => groupOf(name) === group).length;
      return count ? [make(title ? "th" : "td", { scope: title ? "colgroup" : null, colspan: count }, title)] : [];
    });
    find("scores").tHead.replaceChildren(make("tr", { class: "groups" }, ...groups.flat()), make("tr", {}, ...cells));
    const labels = Object.values(kindNamed)
      .filter(({ id }) => heads.some((head) => isOf(head, id)))
      .map(({ id, words }) => make("option", { value: id }, words));
    find("label").replaceChildren(find("label").options[0], ...labels);
  },

  /** First by falling numbers or rising names, then the other way round, then as it was. */
  sortBy(name) {
    const usual = TEXTS.includes(name) || name === "head" ? "+" : "-";
    const other = usual === "+" ? "-" : "+";
    const next = { [usual + name]: other + name, [other + name]: "" };
    change({ sort: state.sort in next ? next[state.sort] : usual + name });
  },

  /** What the table shows in a column of a head's line: its name, or what the CSV has there. */
  cell(head, name) {
    return name === "head" ? head.name : cellOf(head, name);
  },

  /** The heads that are shown, in the order that they are shown in. */
  rows() {
    const wanted = state.find
      .toLowerCase()
      .split(/[\s,]+/)
      .filter(Boolean);
    const rows = heads.filter(
      (head) =>
        (!state.label || isOf(head, state.label)) &&
        (!wanted.length || wanted.some((word) => matches(head, word))),
    );
    if (!state.sort) return rows;
    const [way, name] = [state.sort[0] === "+" ? 1 : -1, state.sort.slice(1)];
    if (name === "head") return rows.sort((a, b) => way * (a.index - b.index));
    if (TEXTS.includes(name))
      return rows.sort((a, b) => way * compare(this.cell(a, name), this.cell(b, name)) || a.index - b.index);
    const value = (head) => (this.cell(head, name) === "" ? NaN : Number(this.cell(head, name)));
    return rows.sort((a, b) => emptyLast(value(a), value(b)) || way * (value(a) - value(b)) || a.index - b.index);
  },

  paint() {
    if (find("find").value !== state.find) find("find").value = state.find;
    find("label").value = state.label;
    for (const heading of find("scores").tHead.rows[1].cells) {
      const sorted = state.sort.slice(1) === heading.firstChild.value ? state.sort[0] : "";
      heading.setAttribute("aria-sort", { "+": "ascending", "-": "descending", "": "none" }[sorted]);
    }
    const rows = this.rows();
    refill(find("scores").tBodies[0], ...rows.map((head) => this.line(head)));
    const buttons = [...find("scores").tBodies[0].querySelectorAll("button")];
    if (buttons.length) rove(buttons, buttons.find((button) => button === document.activeElement));
    find("count").textContent =
      rows.length === heads.length ? `${heads.length} heads` : `${rows.length} of ${heads.length} heads`;
    if (state.label && !heads.some((head) => isOf(head, state.label))) {
      find("count").textContent = `no head does ${state.label}`;
    }
    find("save").disabled = rows.length === 0;
  },

  line(head) {
    const opener = make("button", { type: "button", value: head.name, title: `Look at head ${head.name}` }, head.name);
    const cells = shownColumns
      .slice(1)
      .map((name) =>
        TEXTS.includes(name) ? labelCell(head, name) : numberCell(this.cell(head, name), pattern[name], head),
      );
    return make("tr", {}, make("th", { scope: "row" }, opener), ...cells);
  },

  /** Save the heads that are shown, with the columns of the page's reading: of one input, those of `attnscan classify --csv`. */
  save() {
    const isOfCsv = (_, place) => facts.columns[place] !== "output"; // which pages alone tell
    const lines = [facts.columns, ...this.rows().map(rowOf)];
    const text = lines.map((line) => line.filter(isOfCsv).map(quoted).join(",") + "\n").join("");
    saveAs("heads.csv", text, "text/csv");
  },
};
views.table = tableView;

/** Whether a head is called so, is of the layer `layer:2`, or has such a label. */
function matches(head, word) {
  return (
    head.name === word ||
    isLayer(head, word) ||
    TEXTS.some((name) => cellOf(head, name).includes(word))
  );
}

const compare = (a, b) => (a < b ? -1 : a > b ? 1 : 0);
const emptyLast = (a, b) => Number(Number.isNaN(a)) - Number(Number.isNaN(b));
const quoted = (text) => (/[",\r\n]/.test(text) ? `"${text.replaceAll('"', '""')}"` : text);

function labelCell(head, name) {
  const kind = kindNamed[cellOf(head, name)];
  if (!kind) return make("td", { class: "none" }, kinds.none.words);
  const unsure = name === "label" && isUnsure(head) ? [make("b", { title: facts.whyUnsure }, "?")] : [];
  const swatch = make("i", { class: "swatch" });
  swatch.style.setProperty("--color", kind.color);
  return make("td", {}, swatch, kind.words, ...unsure);
}

/** A number with two decimals, in full under the pointer; a pattern's score on a tint, if above chance. */
function numberCell(text, of, head) {
  const isFraction = text.includes(".");
  const about = { class: of ? "number score" : "number", title: isFraction && text };
  const cell = make("td", about, isFraction ? Number(text).toFixed(2) : text);
  if (of) {
    cell.style.setProperty("--color", of.color);
    cell.style.setProperty("--share", aboveChance(head, of.id));
  }
  return cell;
}
