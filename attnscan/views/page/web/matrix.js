// Beside the lines, the same numbers as squares: queries downwards, keys across; heads ranked by a cell.

import { html, useRef } from "./preact.js";
import { Bar, Canvas, clamped, find, Group, hasModifier, paintSquares, STEPS } from "./dom.js";
import { allHeads, facts, tokenCount, weightDigits } from "./data.js";
import { change, point, pointed, reading, state } from "./state.js";
import { called } from "./tokens.js";
import { kindOf, markOf, numbersOf, statementOf } from "./reading.js";
import { choose, colorsOf } from "./heads.js";
import { goldOutlines, squareColor, Squares, thumbnailCells, whereSecondBegins } from "./squares.js";

const WIDEST_CELL = 20; // CSS pixels
const LABELLED_CELL = 10; // names are at least as far apart
const NAMES_BESIDE = 72;

/** A head's numbers as squares or, where the page does not hold them, its thumbnail. */
export function Matrix(shown) {
  const { heads, numbers, queries, keys } = shown;
  if (!queries.length || !keys.length) return null;
  const width = find("app").clientWidth;
  const widest = heads.length > 1 || width < 900 ? Math.min(340, width - 40) : width / 2 - 160;
  const room = Math.max(120, widest) - NAMES_BESIDE;
  return numbers ? html`<${Cells} ...${shown} room=${room} />` : html`<${Small} ...${shown} room=${room} />`;
}

function Small({ head, small, queries, keys, room }) {
  const style = { width: `${Math.min(room, 320)}px`, ...whereSecondBegins(queries, keys) };
  return html`<figure class="matrix"><figcaption>Head ${head.name}, thumbnail</figcaption>
    <div class="squares"><${Squares} ...${{ head, small, style }} cells=${thumbnailCells()} role="img"
      aria-label="Thumbnail of head ${head.name}" /></div></figure>`;
}

function Cells({ head, numbers, queries, keys, room }) {
  const cell = Math.min(WIDEST_CELL, room / keys.length);
  const step = Math.ceil(LABELLED_CELL / cell);
  const across = keys.length * cell;
  const down = queries.length * cell;
  const ink = squareColor(colorsOf(head));
  const numberOf = (query, key) => numbers[query * tokenCount + key];
  const paint = (canvas) => paintSquares(canvas, queries, keys, numberOf, ink);
  const at = pointed?.head === head.name ? pointed : null;
  const pointAt = (row, column) => {
    const query = queries.at(clamped(row, queries.length));
    const key = keys.at(clamped(column, keys.length));
    point({ query, key, head: head.name });
  };
  const move = (event) => pointAt(Math.floor(event.offsetY / cell), Math.floor(event.offsetX / cell));
  const onKeyDown = (event) => {
    const way = STEPS[event.key];
    if (event.key === "Enter" && at) {
      ask(at);
    } else if (way && !hasModifier(event)) {
      event.preventDefault();
      pointAt(queries.indexOf(at?.query ?? queries[0]) + way[1], keys.indexOf(at?.key ?? keys[0]) + way[0]);
    }
  };
  const size = { width: `${across}px`, height: `${down}px`, ...whereSecondBegins(queries, keys) };
  const gold = goldOutlines(queries, keys, across, down);
  const style = { "--gold": gold, "--label": `${cell * step}px`, "--cell": `${cell}px` };
  const names = (tokens) => tokens.filter((_, place) => place % step === 0)
    .map((index) => html`<bdi>${facts.tokens[index]}</bdi>`);
  return html`<figure class="matrix" style=${style}>
    <figcaption>Head ${head.name}</figcaption>
    <div class="across" aria-hidden="true" style=${{ maxWidth: `${across}px` }}>${names(keys)}</div>
    <div class="down" aria-hidden="true" style=${{ maxHeight: `${down}px` }}>${names(queries)}</div>
    <div class="squares">
      <${Canvas} tabindex="0" role="img" style=${size} paint=${paint}
        values=${[numbers, ink, queries.join(), keys.join()]}
        aria-label="Matrix: Head ${head.name}; arrow keys read it cell by cell, Enter ranks heads by the cell"
        onPointerMove=${move} onPointerDown=${move}
        onPointerLeave=${(event) => event.pointerType !== "touch" && point(null)}
        onBlur=${() => point(null)} onClick=${() => at && ask(at)} onKeyDown=${onKeyDown} />
      ${at && spot("spot", cell, queries.indexOf(at.query), keys.indexOf(at.key))}
      ${state.link && linkSpot(cell, queries, keys)}
    </div>
  </figure>`;
}

/** A frame around a cell, if it is among those that are shown. */
function spot(className, cell, row, column) {
  const side = `${Math.max(cell, 4)}px`;
  const style = { top: `${row * cell}px`, left: `${column * cell}px`, width: side, height: side };
  return row >= 0 && column >= 0 && html`<i class=${className} style=${style} />`;
}

/** A frame around the link by which heads are ranked. */
function linkSpot(cell, queries, keys) {
  const [query, key] = state.link.split("-").map(Number);
  return spot("spot ordering", cell, queries.indexOf(query), keys.indexOf(key));
}

/** Rank all heads by a link, or none if they are ranked by it already; special tokens link nothing. */
function ask({ query, key }) {
  const link = `${query}-${key}`;
  if (!facts.special[query]) change({ link: state.link === link ? "" : link });
}

/** All heads by their numbers for the link, and the average head's; without those that the page does not hold. */
export function Question() {
  const last = useRef(null);
  const numbers = allHeads.map((head) => numbersOf(head));
  if (numbers.includes(undefined)) return last.current;
  const [query, key] = state.link.split("-").map(Number);
  const known = allHeads.filter((_, place) => numbers[place]);
  const share = (head) => numbers[head.index][query * tokenCount + key];
  const average = known.reduce((sum, head) => sum + share(head), 0) / known.length;
  const part = known.length < allHeads.length ? `, of the ${known.length} heads whose weights are on this page` : "";
  const ranked = known.sort((a, b) => share(b) - share(a) || a.index - b.index);
  const names = state.heads.split(",");
  last.current = html`<div id="question" role="group" aria-label="Heads by a link">
    <div class="toolbar">
      <p class="hint" id="ranked-by" aria-live="polite">${called(query)} → ${called(key)}: ranked by
        ${" "}${facts.titles[reading()]}: average head ${average.toFixed(weightDigits)}${part}</p>
      <button type="button" id="clear-link" class="plain" onClick=${() => change({ link: "" })}>Clear</button>
    </div>
    <${Group} tag="ol" id="ranked">
      ${ranked.map((head) => html`<li key=${head.name}>
        <button type="button" value=${head.name} title="${head.name} ${statementOf(head)}"
          aria-pressed=${names.includes(head.name)}
          onClick=${(event) => choose(head.name, event.shiftKey || state.several)}>
          <b>${head.name}</b> ${markOf(head)} ${share(head).toFixed(weightDigits)}</button>
        <${Bar} share=${share(head)} color=${kindOf(head).color} />
      </li>`)}
    <//>
  </div>`;
  return last.current;
}
