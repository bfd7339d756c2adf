// The model view: every head as a thumbnail of its weights, or of what it carries, in the colour of its label.

import { html } from "./preact.js";
import { classNames, Group, narrow, Swatch } from "./dom.js";
import {
  allHeads,
  facts,
  headsPerLayer,
  holds,
  isOfPairs,
  kindNamed,
  ofCarried,
  patterns,
  sourceCount,
} from "./data.js";
import { change, chosenHeads, isOff, reading, state } from "./state.js";
import { Select } from "./controls.js";
import {
  cellOf,
  doubtInWords,
  intervalOf,
  isChanged,
  isOf,
  isUnsure,
  kindOf,
  kindsShown,
  hasColor,
  letterOf,
  markOf,
  rests,
  statementOf,
  thumbnails,
  whyNone,
} from "./reading.js";
import { openHead } from "./heads.js";
import { goldLine, goldOutlines, Squares, thumbnailCells, whereSecondBegins } from "./squares.js";

export function modelView() {
  const small = isOfPairs ? null : thumbnails();
  if (small === undefined) return undefined;
  const byPlace = state.order === "place";
  const cells = thumbnailCells();
  const ranked = rankedHeads();
  const { queries, keys } = cells;
  const aspect = sourceCount && keys.length ? Math.max(0.4, Math.min(2.5, keys.length / queries.length)) : 1;
  const gold = goldOutlines(queries, keys, 168, 168);
  const style = { "--columns": headsPerLayer, "--aspect": aspect, "--gold": gold, ...whereSecondBegins(queries, keys) };
  const axis = (text) => html`<span key="axis ${text}" class="axis" aria-hidden="true">${text}</span>`;
  const thumbnail = (head) => html`<${Thumbnail} key=${head.name} ...${{ head, small, cells }} />`;
  const row = (head) => (head.index % headsPerLayer ? [thumbnail(head)] : [axis(head.layer), thumbnail(head)]);
  const columns = ["", ...Array(headsPerLayer).keys()].map(axis);
  const orders = [["place", "by place"], ...patterns.map(({ id }) => [id, `by ${id}`])];
  return html`
    <div class="toolbar">
      <${Select} name="order" title="Order" options=${orders} />
      <${Legend} />
    </div>
    <p class="hint" id="model-hint">${modelHint()}</p>
    <${Group} id="thumbnails" class=${byPlace ? "by-place" : ""} style=${style}>
      ${byPlace ? [...columns, ...allHeads.flatMap(row)] : ranked.map(thumbnail)}
    <//>`;
}

/** The heads by place, or by their score for a pattern; those without one come last. */
function rankedHeads() {
  if (state.order === "place") return allHeads;
  const score = (head) => Number(cellOf(head, state.order) || -1);
  return [...allHeads].sort((a, b) => score(b) - score(a) || a.index - b.index);
}

/** What the squares and their letters are of, and whether any head does what was asked for. */
function modelHint() {
  const title = facts.titles[reading()];
  const dark = ofCarried(reading()) ? "the head carries from there" : "weight";
  const [down, across] = sourceCount ? ["target words", "source words"] : ["queries", "keys"];
  const unranked = patterns.find(({ id }) => id === state.order && allHeads.every((head) => cellOf(head, id) === ""));
  const wanted = kindNamed[state.only];
  return [
    `${title[0].toUpperCase()}${title.slice(1)}, by letter and colour; each square is one head`,
    isOfPairs
      ? ", with the score of its label and the 95 % interval. Choose one to see what is known of it."
      : `: ${down} downwards, ${across} across, the more colour, the more ${dark}. Choose one to see its lines.`,
    isOfPairs ? "" : ` ${goldLine()}`,
    isOfPairs || allHeads.every((head) => holds("weights", head)) ? "" : " Dashed: a thumbnail alone.",
    allHeads.some(rests) ? ` ${facts.restsMark}, paler: rests, more than half is on special tokens.` : "",
    allHeads.some((head) => isUnsure(head)) ? ` ?: ${facts.whyUnsure}.` : "",
    allHeads.some(isChanged) ? " ≠: sure, and another label in the second corpus." : "",
    unranked ? ` No head has a rank by ${unranked.id}: ${whyNone(unranked)}.` : "",
    wanted && !allHeads.some((head) => isOf(head, wanted.id)) ? ` No head does this: ${wanted.words}.` : "",
  ].join("");
}

/** The kinds with how many heads are of each; a click lets one stand out. */
function Legend() {
  const buttons = kindsShown().map(
    ({ id, letter, words, counts, color, count }) => html`<button key=${id} type="button" value=${id} title=${counts}
      aria-pressed=${state.only === id} onClick=${() => change({ only: state.only === id ? "" : id })}>
      ${hasColor(id) && html`<${Swatch} color=${color} />`}${letterOf({ id, letter })} ${words}${" "}
      <span class="count">${count}</span>
    </button>`,
  );
  return html`<${Group} id="legend" class="legend" role="group" aria-label="Show one kind">${buttons}<//>`;
}

function Thumbnail({ head, small, cells }) {
  const kind = kindOf(head);
  const byPlace = state.order === "place";
  const score = cellOf(head, byPlace ? "share" : state.order);
  const number = score ? Number(score).toFixed(2) : "–";
  const shown = byPlace && !isOfPairs ? markOf(head) : number;
  const interval = intervalOf(head, byPlace ? kind.id : state.order);
  const written = [head.name, shown];
  if (isOfPairs) written.unshift(markOf(head), narrow() ? shown : interval);
  const doubts = `${doubtInWords(head)}${rests(head) ? ", rests on special tokens" : ""}`;
  const classes = {
    rests: rests(head),
    none: kind.id === "none",
    absent: !isOfPairs && !holds("weights", head),
    dimmed: state.only && !isOf(head, state.only),
    out: isOff(head),
  };
  const face = isOfPairs
    ? html`<span class="face"><b>${markOf(head)}</b> <small>${interval}</small></span>`
    : html`<${Squares} class="face" aria-hidden="true" ...${{ head, small, cells }} />`;
  return html`<button type="button" value=${head.name} style=${{ "--color": kind.color }}
    class=${classNames(classes)} aria-current=${head === chosenHeads()[0] ? "true" : null}
    title="${head.name} ${statementOf(head)}${doubts}"
    aria-label="${written.filter(Boolean).join(" ")}, ${kind.words}${doubts}"
    onClick=${(event) => openHead(head.name, event)}>
    ${face} <span class="caption"><b>${head.name}</b> <span>${shown}</span></span>
  </button>`;
}
