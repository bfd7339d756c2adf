// A sentence's dependency tree, or its other links, over the head view, with the arcs that heads follow.

import { html } from "./preact.js";
import { Group } from "./dom.js";
import { draw } from "./redraw.js";
import { bytesOf, facts, joined, ofCarried, once, tokenCount, treebank } from "./data.js";
import { change, reading, state } from "./state.js";
import { direction } from "./tokens.js";
import { colorsOf } from "./heads.js";

const LEVEL = 22; // CSS pixels between two levels of arcs
const BEND = 6; // of an arc's corners
let lit = null; // the arc that is pointed at

export function Tree({ heads, weights }) {
  const by = ofCarried(reading()) ? "carried" : "weight";
  const most = once(`most-${by}`, async () => joined(await bytesOf(`most-${by}`)));
  if (!most) return null;
  const { words, wordOf, isTree } = facts.tree;
  const follows = (head, from, to) => most[head.index * words.length + from] === to + 1;
  const way = (start, end) => (head, place) => [follows(head, start, end), wordWeight(weights[place], start, end)];
  const arcs = facts.tree.arcs.map(({ from, to, relation }) => (
    { from, to, relation, up: heads.map(way(from, to)), down: heads.map(way(to, from)) }));
  const hasHead = new Set(arcs.map(({ from }) => from));
  const places = layOut(words, arcs);
  const name = isTree ? "Dependency tree" : "Links";
  const height = LEVEL * (1 + Math.max(0, ...arcs.map(({ level }) => level)));
  const lines = lit ? heardOf(arcs[lit], heads) : heads.map((head, place) => followedOf(head, place, arcs));
  return html`<div id="tree">
    <div class="reach" tabindex="0" role="region" aria-label=${name}>
      <div class="whole" style=${{ width: `${places.width}px`, height: `${height + 24}px` }}>
        <svg width=${places.width} height=${height} aria-hidden="true">
          ${arcs.map((arc, place) => html`<${Arc} ...${{ arc, heads, height, isLit: lit === String(place) }} />`)}
        </svg>
        <${ArcNames} ...${{ arcs, heads, height }} />
        <div class="words">${words.map((word, place) => html`<bdi class=${isTree && !hasHead.has(place) ? "root" : ""}
          title=${wordOf.includes(place) ? word : `${word}: no token is of this word`}
          style=${{ left: `${places.middle[place]}px`, top: `${height}px` }}>${word}</bdi>`)}</div>
      </div>
    </div>
    <p class="hint" aria-live="polite">${lines.join("\n")}</p>
  </div>`;
}

/** The names of arcs, which read them out when they are pointed at; a click holds the dependent's first token. */
function ArcNames({ arcs, heads, height }) {
  const light = (event) => {
    lit = event.target.closest("button")?.value ?? null;
    draw();
  };
  const unlight = () => {
    lit = null;
    draw();
  };
  const hold = ({ from }) => {
    const token = `q${facts.tree.wordOf.indexOf(from)}`;
    if (token !== "q-1") change({ token: state.token === token ? "" : token });
  };
  const title = facts.tree.isTree ? "Arcs of the dependency tree" : "Arcs of the links";
  return html`<${Group} class="labels" role="group" aria-label=${title} onPointerOver=${light}
    onfocusin=${light} onPointerLeave=${unlight} onfocusout=${unlight}>
    ${arcs.map((arc, place) => html`<button type="button" value=${String(place)}
      class=${followerOf(arc, heads) ? "followed" : ""} aria-label=${heardOf(arc, heads).join(". ")}
      style=${{ left: `${(arc.fromX + arc.toX) / 2}px`, top: `${height - arc.level * LEVEL}px` }}
      onClick=${() => hold(arc)}>${arc.relation}</button>`)}
  <//>`;
}

/** The first head that follows an arc one way or the other. */
const followerOf = ({ up, down }, heads) => heads.find((_, place) => up[place][0] || down[place][0]);

/** An arc in the colour of the head that follows it, with an arrow to the word that is attended to most. */
function Arc({ arc, heads, height, isLit }) {
  const head = followerOf(arc, heads);
  const paleInk = isLit ? "var(--faint)" : "var(--pale)";
  const ink = head ? colorsOf(head).color : paleInk;
  const top = height - arc.level * LEVEL;
  const bend = Math.min(BEND, Math.abs(arc.toX - arc.fromX) / 2) * Math.sign(arc.toX - arc.fromX);
  const first = `q0 -${BEND} ${bend} -${BEND}`;
  const second = `q${bend} 0 ${bend} ${BEND}`;
  const path = `M${arc.fromX} ${height} V${top + BEND} ${first} H${arc.toX - bend} ${second} V${height}`;
  const arrow = (x) => html`<path d="M${x - 4} ${height - 7} h8 l-4 7 z" fill=${ink} />`;
  return html`<path d=${path} fill="none" stroke=${ink} stroke-width=${(head ? 2 : 1) + Number(isLit)} />
    ${arc.up.some(([follows]) => follows) && arrow(arc.toX)}
    ${arc.down.some(([follows]) => follows) && arrow(arc.fromX)}`;
}

/** What heads make of an arc, a line each. */
function heardOf({ from, to, relation, up, down }, heads) {
  const { words } = facts.tree;
  const way = (start, end, [follows, weight]) => {
    const number = weight === null ? "" : ` ${weight.toFixed(2)}`;
    return `${words[start]} → ${words[end]}${number}${follows ? ", its most attended word" : ""}`;
  };
  return heads.map((head, place) => {
    const of = heads.length > 1 ? ` in ${head.name}` : "";
    return `${relation}${of}: ${way(from, to, up[place])}; ${way(to, from, down[place])}`;
  });
}

/** How many arcs a head follows, and what it follows in all sentences. */
function followedOf(head, place, arcs) {
  const by = ofCarried(reading()) ? "By what it carries" : "By attention weight";
  const [up, down] = ["up", "down"].map((way) => arcs.filter((arc) => arc[way][place][0]).length);
  const end = facts.tree.isTree ? "head" : "target";
  const counts = `follows ${up} of ${arcs.length} arcs from a word to its ${end}, ${down} from a ${end} to its word`;
  return `${by}, head ${head.name} ${counts}. Over ${treebank.of}: ${treebank.heads[head.index]}.`;
}

/** Set each arc's level, above all shorter ones that it shares words with, and where it stands on its words. */
function layOut(words, arcs) {
  const context = new OffscreenCanvas(1, 1).getContext("2d");
  context.font = `15px ${getComputedStyle(document.body).fontFamily}`;
  const widths = words.map((word, place) => {
    const beside = arcs.filter(({ from, to }) => from === place && Math.abs(to - from) === 1);
    const names = beside.map(({ relation }) => 8 * relation.length); // such an arc needs room for its name
    return 16 + Math.max(Math.min(250, context.measureText(word).width), ...names);
  });
  const width = widths.reduce((sum, each) => sum + each, 0);
  let end = 0;
  const middle = widths.map((each) => (end += each) - each / 2).map((x) => (direction() === "rtl" ? width - x : x));
  const first = ({ from, to }) => Math.min(from, to);
  const last = ({ from, to }) => Math.max(from, to);
  const placed = [];
  for (const arc of [...arcs].sort((a, b) => last(a) - first(a) - (last(b) - first(b)))) {
    const under = placed.filter((other) => first(other) < last(arc) && first(arc) < last(other));
    arc.level = 1 + Math.max(0, ...under.map(({ level }) => level));
    placed.push(arc);
  }
  for (const place of words.keys()) {
    const away = ({ from, to }) => middle[from === place ? to : from] - middle[place];
    const here = arcs.filter(({ from, to }) => from === place || to === place);
    here.sort((a, b) => 1 / away(a) - 1 / away(b)); // to the left the nearest first, to the right the farthest
    const apart = Math.min(8, widths[place] / Math.max(1, here.length));
    for (const [slot, arc] of here.entries()) {
      arc[arc.from === place ? "fromX" : "toX"] = middle[place] + (slot - (here.length - 1) / 2) * apart;
    }
  }
  return { width, middle };
}

/** What a word attends to another with: the mean over its tokens of the sum over the other's; null if unknown. */
function wordWeight(numbers, from, to) {
  const tokensOf = (word) => [...facts.tokens.keys()].filter((token) => facts.tree.wordOf[token] === word);
  const queries = tokensOf(from);
  const keys = tokensOf(to);
  if (!numbers || !queries.length) return null;
  const sums = queries.map((query) => keys.reduce((sum, key) => sum + numbers[query * tokenCount + key], 0));
  return sums.reduce((sum, each) => sum + each, 0) / queries.length;
}
