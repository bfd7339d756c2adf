// The head view: which token looks at which, in one head or several, as lines and as squares.

import { html } from "./preact.js";
import { Canvas, classNames, Group, sized } from "./dom.js";
import {
  amongWords,
  facts,
  headNamed,
  isOfPairs,
  live,
  ofCarried,
  sourceCount,
  tokenCount,
  weightDigits,
} from "./data.js";
import { change, chosenHeads, point, pointed, reading, state, tokensOn } from "./state.js";
import { called, named, tokenName } from "./tokens.js";
import { numbersOf, thumbnails } from "./reading.js";
import { colorsOf } from "./heads.js";
import { goldLine } from "./squares.js";
import { Card } from "./card.js";
import { Matrix, Question } from "./matrix.js";
import { Tree } from "./tree.js";

const MOST_LINES = 2000; // of more, the strongest ones are drawn
const NEAR = 5; // CSS pixels from a line at which the pointer is on it
let drawnLines = []; // those on the canvas, with where they start and end

export function headView() {
  if (isOfPairs) {
    return html`<div id="cards">${chosenHeads().map((head) => html`<${Card} key=${head.name} head=${head} />`)}</div>`;
  }
  const heads = chosenHeads();
  const weights = heads.map((head) => numbersOf(head));
  const small = weights.includes(null) ? thumbnails() : null;
  if ([...weights, small].includes(undefined)) return undefined;
  const queries = tokensOn("q");
  const keys = tokensOn("k");
  const shown = { heads, weights, small, queries, keys, active: activeToken(queries, keys) };
  const matrix = (head, place) =>
    html`<${Matrix} key=${head.name} ...${shown} head=${head} numbers=${weights[place]} />`;
  const missing = heads.filter((_, place) => !weights[place]).map(({ name }) => name).join(", ");
  const from = (event) => change({ from: event.target.value });
  return html`
    <div class="toolbar">
      <label class="field"><span class="name">Lines from</span>
        <input id="threshold" type="range" min="0" max="1" step="0.01" value=${state.from} onInput=${from} />
        <output id="threshold-value" for="threshold">${Number(state.from).toFixed(2)}</output>
      </label>
    </div>
    ${missing && html`<p class="notice" id="head-notice">
      The weights of ${missing} are not on this page, only the thumbnail: ${facts.whyNot.weights}.${" "}
      ${!live && `To get them: attnscan report … --heads ${missing.replaceAll(" ", "")}`}
    </p>`}
    ${facts.tree && html`<${Tree} heads=${heads} weights=${weights} />`}
    <div id="panes">
      ${weights.some(Boolean) && html`<${Stage} ...${shown} />`}
      <div id="matrices" class=${heads.length > 1 ? "several" : ""}>${heads.map(matrix)}</div>
    </div>
    ${state.link && html`<${Question} />`}
    <p class="hint ${shown.active ? "pointed" : ""}" id="reading" aria-live="polite">${readingLine(shown)}</p>`;
}

/** The token whose numbers are shown: the one that is pointed at, else the one that is held, if it is there. */
function activeToken(queries, keys) {
  const held = state.token && { side: state.token[0], index: Number(state.token.slice(1)) };
  const active = pointed?.side ? pointed : held;
  return active && (active.side === "q" ? queries : keys).includes(active.index) ? active : null;
}

/** The queries on the left, the keys on the right, and lines between them. */
function Stage({ heads, weights, queries, keys, active }) {
  const several = heads.length > 1;
  const { color, ink } = several ? { color: "var(--text)", ink: "var(--ground)" } : colorsOf(heads[0]);
  const from = active?.side === "q" ? [active.index] : queries;
  const to = active?.side === "k" ? [active.index] : keys;
  const all = linesOf(heads, weights, from, to);
  const lines = all.slice(0, MOST_LINES);
  const number = `${ofCarried(reading()) ? "share" : "weight"} ${Number(state.from).toFixed(2)}`;
  const say = ({ offsetX, offsetY }) => point(lineAt(offsetX, offsetY));
  const shown = { heads, weights, active };
  return html`<div id="drawing">
    <div id="stage" style=${{ "--color": color, "--ink": ink }}
      data-size=${tokenSize()}>
      <${Tokens} id="queries" side="q" name="Tokens that look: queries" tokens=${queries} ...${shown} />
      <${Canvas} id="lines" role="img" paint=${(canvas) => paintLines(canvas, lines, queries, keys)}
        aria-label="${all.length} lines of ${number} or more, from ${from.length} queries to ${to.length} keys"
        onPointerMove=${say} onPointerLeave=${() => point(null)} />
      <${Tokens} id="keys" side="k" name="Tokens that are looked at: keys" tokens=${keys} ...${shown} />
    </div>
    ${all.length > lines.length && html`<p class="hint" id="most-lines">
      The ${lines.length.toLocaleString("en")} strongest of ${all.length.toLocaleString("en")} lines are drawn.</p>`}
  </div>`;
}

/** How large tokens are written: the more there are, the smaller. */
function tokenSize() {
  if (tokenCount > 160) return "small";
  return tokenCount > 64 ? "medium" : "large";
}

/** A list of tokens, each with what the active one has with it: a number, or of several heads a box each. */
function Tokens({ id, side, name, tokens, heads, weights, active }) {
  const second = tokens.findIndex((index) => facts.segments[index] === 1);
  const isOther = active && active.side !== side;
  const several = heads.length > 1;
  const token = (index, place) => {
    const values = isOther ? weights.map((numbers) => between(numbers, active, index)) : [];
    const texts = values.map((value) => value.toFixed(weightDigits));
    const heard = several ? texts.map((text, head) => `${heads[head].name} ${text}`) : texts;
    const box = (opacity, head) => html`<i style=${{ background: colorsOf(heads[head]).color, opacity }} />`;
    const classes = {
      special: facts.special[index],
      active: active?.side === side && active.index === index,
      gold: isOther && facts.gold.some((link) => link.includes(index) && link.includes(active.index)),
      second: place > 0 && place === second,
    };
    return html`<button key=${index} type="button" role="option" value=${index} class=${classNames(classes)}
      aria-selected=${state.token === side + index} title="${facts.tokens[index]} · ${tokenName(index)}"
      aria-label="${[facts.tokens[index], ...heard].join(" ")}, ${tokenName(index)}"
      style=${{ "--share": several ? 0 : (values[0] ?? 0) }}>
      <bdi>${facts.tokens[index]}</bdi>${" "}
      <span class="value" aria-hidden="true">${several ? values.map(box) : texts}</span>
    </button>`;
  };
  const over = (event) => {
    const button = event.target.closest("button");
    const isTouch = event.pointerType === "touch" || (event.type === "focusin" && !button.matches(":focus-visible"));
    if (button && !isTouch) point({ side, index: Number(button.value) });
  };
  const hold = (event) => {
    const button = event.target.closest("button");
    if (button) change({ token: state.token === side + button.value ? "" : side + button.value });
  };
  return html`<${Group} id=${id} class="tokens" role="listbox" aria-label=${name} onClick=${hold} onPointerOver=${over}
    onfocusin=${over} onPointerLeave=${() => point(null)} onfocusout=${() => point(null)}>${tokens.map(token)}<//>`;
}

/** What a head has between the active token and another one. */
function between(numbers, active, index) {
  const [query, key] = active.side === "q" ? [active.index, index] : [index, active.index];
  return numbers?.[query * tokenCount + key] ?? 0;
}

/** The lines from the threshold on, strongest first: { query, key, weight, head }. */
function linesOf(heads, weights, queries, keys) {
  const lines = [];
  for (const [place, head] of heads.entries()) {
    for (const query of weights[place] ? queries : []) {
      for (const key of keys) {
        const weight = weights[place][query * tokenCount + key];
        if (weight > 0 && weight >= Number(state.from)) lines.push({ query, key, weight, head: head.name });
      }
    }
  }
  return lines.sort((a, b) => b.weight - a.weight);
}

/** Lines between rows of tokens, all as high as the first one; the strongest lie on top. */
function paintLines(canvas, lines, queries, keys) {
  const row = canvas.parentElement.querySelector("button")?.offsetHeight ?? 0;
  const width = Math.round(Math.max(84, Math.min(340, 0.36 * canvas.parentElement.clientWidth)));
  const context = sized(canvas, width, row * Math.max(queries.length, keys.length));
  const y = (tokens, index) => (tokens.indexOf(index) + 0.5) * row;
  drawnLines = lines.map((line) => ({ ...line, y1: y(queries, line.query), y2: y(keys, line.key), width }));
  for (const { y1, y2, weight, head } of drawnLines.toReversed()) {
    const strokeStyle = colorsOf(headNamed[head]).color;
    Object.assign(context, { globalAlpha: 0.06 + 0.94 * weight, lineWidth: 0.75 + 2.25 * weight, strokeStyle });
    context.beginPath();
    context.moveTo(0, y1);
    context.lineTo(width, y2);
    context.stroke();
  }
}

/** The strongest line near a point, as { query, key, head }; null if there is none. */
function lineAt(x, y) {
  const isNear = ({ y1, y2, width }) => Math.abs((y2 - y1) * x - (y - y1) * width) <= NEAR * Math.hypot(width, y2 - y1);
  const line = drawnLines.find(isNear);
  return line ? { query: line.query, key: line.key, head: line.head } : null;
}

/** What is said below: of a cell or line its number, of a token what it looks at most, else what may be pointed at. */
function readingLine({ heads, weights, queries, keys, active }) {
  if (!weights.some(Boolean)) return ""; // thumbnails are not read
  const place = heads.findIndex(({ name }) => name === pointed?.head);
  if (weights[place]) {
    const number = weights[place][pointed.query * tokenCount + pointed.key].toFixed(weightDigits);
    return html`${named(pointed.query)} → ${named(pointed.key)} ${number} in head ${pointed.head}`;
  }
  if (!active) return whatToPointAt();
  const others = active.side === "q" ? keys : queries;
  const first = weights.findIndex(Boolean);
  const line = (head, at) => weights[at] && [
    at > first && "\n",
    heads.length > 1 && html`<b>${head.name}</b> `,
    strongestOf(weights[at], active, others),
  ];
  return html`${heads.map(line)}${relatedTo(active.index)}`;
}

function whatToPointAt() {
  return [
    `Point at a token, a line or a square to read ${ofCarried(reading()) ? "shares" : "weights"};`,
    "click a token to hold it.",
    amongWords(reading()) ? "Special tokens are removed." : "",
    sourceCount ? "Target words, on the left, look at source words." : "",
    goldLine(),
  ].join(" ");
}

/** What a token does with others, by the side that it is on. */
function verbOf(side) {
  if (ofCarried(reading())) return side === "q" ? "takes most from" : "gives most to";
  return side === "q" ? "looks most at" : "is looked at most by";
}

/** The two other tokens with which a token has most. */
function strongestOf(numbers, active, others) {
  const known = others.map((index) => [between(numbers, active, index), index]).filter(([value]) => value >= 0.005);
  const top = known.sort((a, b) => b[0] - a[0]).slice(0, 2);
  const entry = ([value, index], rank) => html`${rank ? ", then " : ""}${called(index)} (${value.toFixed(2)})`;
  return html`${called(active.index)} ${verbOf(active.side)} ${top.length ? top.map(entry) : "nothing"}.`;
}

/** The tokens of words that are related to a token's; nothing if there are none. */
function relatedTo(token) {
  const related = facts.related.filter((pair) => pair.includes(token)).flat();
  const others = related.filter((index) => index !== token);
  return others.length > 0 && html` Related: ${others.map((index, at) => [at ? ", " : "", named(index)])}.`;
}
