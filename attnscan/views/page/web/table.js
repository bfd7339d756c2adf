// The table: every head with its labels and scores, to sort, to filter, and to save as CSV.

import { html } from "./preact.js";
import { Group, saveAs, Swatch } from "./dom.js";
import { allHeads, column, columnsShown, facts, kindNamed, patterns } from "./data.js";
import { change, state } from "./state.js";
import { Select } from "./controls.js";
import { aboveChance, cellOf, doubtOf, isOf, kindsShown, whyDoubt } from "./reading.js";
import { openHead } from "./heads.js";

/** Whether a column holds names; the others hold numbers. */
const isText = (name) => name === "head" || Boolean(facts.columns[name]?.isText);

/** The heads that are shown, in the order that they are shown in. */
function rowsShown() {
  const rows = allHeads.filter((head) => !state.only || isOf(head, state.only));
  if (!state.sort) return rows;
  const way = state.sort[0] === "+" ? 1 : -1;
  const name = state.sort.slice(1);
  if (name === "head") return rows.sort((a, b) => way * (a.index - b.index));
  const value = (head) => (isText(name) ? cellOf(head, name) : Number(cellOf(head, name)));
  const isEmpty = (head) => cellOf(head, name) === "" && !isText(name);
  const compare = (a, b) => way * (Number(value(a) > value(b)) - Number(value(a) < value(b)));
  return rows.sort((a, b) => Number(isEmpty(a)) - Number(isEmpty(b)) || compare(a, b) || a.index - b.index);
}

/** First by falling numbers or rising names, then the other way round, then as it was. */
function sortBy(name) {
  const [first, then] = isText(name) ? ["+", "-"] : ["-", "+"];
  change({ sort: { [first + name]: then + name, [then + name]: "" }[state.sort] ?? first + name });
}

export function tableView() {
  const rows = rowsShown();
  const all = `${allHeads.length} heads`;
  const count = rows.length === allHeads.length ? all : `${rows.length} of ${all}`;
  const kinds = [["", "all heads"], ...kindsShown().map(({ id, words }) => [id, words])];
  const heading = (name) => {
    const order = { [`+${name}`]: "ascending", [`-${name}`]: "descending" }[state.sort] ?? "none";
    const title = facts.columns[name]?.heading ?? name;
    return html`<th scope="col" class=${isText(name) ? "" : "number"} aria-sort=${order}>
      <button type="button" value=${name} onClick=${() => sortBy(name)}>${title}</button></th>`;
  };
  const line = (head) => html`<tr key=${head.name}>
    <th scope="row"><button type="button" value=${head.name} title="Look at head ${head.name}"
      onClick=${(event) => openHead(head.name, event)}>${head.name}</button></th>
    ${columnsShown().slice(1).map((name) => (isText(name) ? labelCell(head, name) : numberCell(head, name)))}
  </tr>`;
  return html`
    <div class="toolbar">
      <${Select} name="only" title="What they do" options=${kinds} />
      <span class="count" id="count" aria-live="polite">${count}</span>
      <button type="button" id="save" class="plain" disabled=${!rows.length} onClick=${saveTable}>Save CSV</button>
    </div>
    <div class="scroll" tabindex="0" role="region" aria-label="All heads">
      <table id="scores">
        <thead><tr>${columnsShown().map(heading)}</tr></thead>
        <${Group} tag="tbody">${rows.map(line)}<//>
      </table>
    </div>`;
}

function labelCell(head, name) {
  const kind = kindNamed[cellOf(head, name)];
  if (!kind) return html`<td class="none">${kindNamed.none.words}</td>`;
  const doubt = name === "label" && doubtOf(head) && html`<b title=${whyDoubt(head)}>${doubtOf(head)}</b>`;
  return html`<td title=${kind.words}><${Swatch} color=${kind.color} />${kind.words}${doubt}</td>`;
}

/** A number with two decimals, in full under the pointer; a pattern's score on a tint, if above chance. */
function numberCell(head, name) {
  const text = cellOf(head, name);
  const kind = patterns.find(({ id }) => id === name);
  const isFraction = text.includes(".");
  const tint = kind && { "--color": kind.color, "--share": aboveChance(head, kind) };
  return html`<td class=${kind ? "number score" : "number"} title=${isFraction ? text : null} style=${tint}>
    ${isFraction ? Number(text).toFixed(facts.columns[name]?.decimals ?? 2) : text}</td>`;
}

/** Save the heads that are shown, with the columns of the page's reading: of one input, those of `classify --csv`. */
function saveTable() {
  const columns = Object.keys(column).filter((name) => facts.columns[name]?.isSaved ?? true);
  const quoted = (text) => (/[",\r\n]/.test(text) ? `"${text.replaceAll('"', '""')}"` : text);
  const lines = [columns, ...rowsShown().map((head) => columns.map((name) => cellOf(head, name)))];
  saveAs("heads.csv", lines.map((line) => `${line.map(quoted).join(",")}\n`).join(""), "text/csv");
}
