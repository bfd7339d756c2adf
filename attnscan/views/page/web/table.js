// The table: every head with its labels and scores, to sort, to filter, and to save as CSV.

const TEXTS = ["label", "among_words"];
let shownColumns;

/** Which columns are shown: not 95 % intervals, which stand in the CSV and beside a head's scores. */
function columnsShown() {
  const bounds = scored.flatMap((id) => [`${id}_low`, `${id}_high`]);
  return ["head", ...facts.columns.slice(NAMES).filter((name) => !bounds.includes(name))];
}

const headings = { label_stays: "label stays", among_words: "among words", average: "average head" };

const tableView = {
  build() {
    find("scores").tHead.addEventListener("click", (event) => event.target.value && this.sortBy(event.target.value));
    find("scores").tBodies[0].addEventListener("click", (event) => {
      const button = event.target.closest("button");
      if (button) openHead(button.value, event);
    });
    steer(find("scores"), () => [...find("scores").tBodies[0].querySelectorAll("button")]);
    find("only").addEventListener("change", (event) => change({ only: event.target.value }));
    find("save").addEventListener("click", () => this.save());
  },

  renew() {
    shownColumns = columnsShown();
    const cells = shownColumns.map((name) => {
      const button = make("button", { type: "button", value: name }, headings[name] || name);
      return make("th", { scope: "col", class: TEXTS.includes(name) || name === "head" ? "" : "number" }, button);
    });
    find("scores").tHead.replaceChildren(make("tr", {}, ...cells));
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
    const rows = heads.filter((head) => !state.only || isOf(head, state.only));
    if (!state.sort) return rows;
    const [way, name] = [state.sort[0] === "+" ? 1 : -1, state.sort.slice(1)];
    if (name === "head") return rows.sort((a, b) => way * (a.index - b.index));
    if (TEXTS.includes(name))
      return rows.sort((a, b) => way * compare(this.cell(a, name), this.cell(b, name)) || a.index - b.index);
    const value = (head) => (this.cell(head, name) === "" ? NaN : Number(this.cell(head, name)));
    return rows.sort((a, b) => emptyLast(value(a), value(b)) || way * (value(a) - value(b)) || a.index - b.index);
  },

  paint() {
    const kindsOfHeads = kindsShown().map(({ id, words }) => make("option", { value: id }, words));
    find("only").replaceChildren(find("only").options[0], ...kindsOfHeads);
    find("only").value = state.only;
    for (const heading of find("scores").tHead.rows[0].cells) {
      const sorted = state.sort.slice(1) === heading.firstChild.value ? state.sort[0] : "";
      heading.setAttribute("aria-sort", { "+": "ascending", "-": "descending", "": "none" }[sorted]);
    }
    const rows = this.rows();
    refill(find("scores").tBodies[0], ...rows.map((head) => this.line(head)));
    const buttons = [...find("scores").tBodies[0].querySelectorAll("button")];
    if (buttons.length) rove(buttons, buttons.find((button) => button === document.activeElement));
    find("count").textContent =
      rows.length === heads.length ? `${heads.length} heads` : `${rows.length} of ${heads.length} heads`;
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
