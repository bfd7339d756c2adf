// Weights as squares: heads made small, and the outlines of gold links.

import { html } from "./preact.js";
import { Canvas, channels, paintSquares, sized, styleColor } from "./dom.js";
import { amongWords, facts, kindNamed, sourceCount } from "./data.js";
import { isAsked, reading, state } from "./state.js";
import { theme } from "./theme.js";
import { kindOf } from "./reading.js";

/** A head made small, a cell a pixel. */
export function Squares({ head, small, cells, ...attributes }) {
  const { down, across, rows, columns } = cells;
  const ink = squareColor(kindOf(head));
  const numberOf = (row, column) => (small[(head.index * down + row) * across + column] / 255) ** 2;
  const paint = (canvas) => paintSquares(canvas, rows, columns, numberOf, ink);
  return html`<${Canvas} ...${attributes} paint=${paint} values=${[small, ink, state.pairs]} />`;
}

/** The colour of squares: in the dark, one that is not a kind's is lighter, or faint squares are not seen. */
export function squareColor({ id, color }) {
  if (theme() !== "dark" || id !== "none") return color;
  return `#${channels(color).map((value) => Math.round((value + 255) / 2).toString(16)).join("")}`;
}

/**
 * Which cells of thumbnails begin in the sentences that are chosen, as `rows` and `columns`, and the tokens that are
 * the first of these; thumbnails are `down` cells high and `across` cells wide.
 */
export function thumbnailCells() {
  const side = (name) => {
    const tokens = [...facts.tokens.keys()].filter((index) => !(amongWords(reading()) && facts.special[index]));
    const own = sourceCount ? tokens.filter((index) => isAsked(index, name)) : tokens;
    const count = Math.min(facts.side ?? 0, own.length);
    const first = (cell) => own[Math.floor(cell * (own.length / count))];
    const cells = Array.from({ length: count }, (_, cell) => cell).filter((cell) => isAsked(first(cell), name));
    return { count, cells, tokens: cells.map(first) };
  };
  const down = side("q");
  const across = side("k");
  const places = { queries: down.tokens, keys: across.tokens };
  return { down: down.count, across: across.count, rows: down.cells, columns: across.cells, ...places };
}

/** Where the style sheet draws a line between sentences A and B, among queries downwards and keys across. */
export function whereSecondBegins(queries, keys) {
  const share = (places) => {
    const before = places.findIndex((place) => facts.segments[place] === 1);
    return before > 0 && !sourceCount ? `${(100 * before) / places.length}%` : "-9px";
  };
  return { "--down": share(queries), "--across": share(keys) };
}

/** Outlines of the cells of gold links, as a picture to lie over squares of this size; `none` where there are none. */
export function goldOutlines(queries, keys, width, height) {
  const cells = (facts.gold ?? []).map(([query, key]) => [queries.indexOf(query), keys.indexOf(key)]);
  const shown = cells.filter((cell) => !cell.includes(-1));
  if (!shown.length) return "none";
  const canvas = document.createElement("canvas");
  const context = sized(canvas, width + 4, height + 4); // two pixels around for the lines at its edge
  const across = width / keys.length;
  const down = height / queries.length;
  for (const [ink, lineWidth] of [["--ground", 3], ["--warn", 1.5]]) {
    Object.assign(context, { strokeStyle: styleColor(ink), lineWidth });
    for (const [row, column] of shown) context.strokeRect(2 + column * across, 2 + row * down, across, down);
  }
  return `url(${canvas.toDataURL()})`;
}

/** Where gold links are, or why there are none; nothing where none were asked for. */
export function goldLine() {
  if (facts.gold?.length) return "Outlined in orange: gold links. ";
  const { whyNone } = kindNamed.aligned ?? {};
  return whyNone ? `No gold links are outlined: ${whyNone}. ` : "";
}
