// The neuron view: how one head's queries and keys make one query's weights, number by number.

import { html } from "./preact.js";
import { Bar, Canvas, clamped, Group, hasModifier, paintSquares, signed, STEPS, styleColor } from "./dom.js";
import { facts, headsPerLayer, maskOf, neuronsOf, sourceCount, tokenCount, weightDigits } from "./data.js";
import { change, chosenHeads, point, pointed, state, tokensOn } from "./state.js";
import { theme } from "./theme.js";
import { direction, named, placeOf, tokenName } from "./tokens.js";
import { Select, Switch } from "./controls.js";
import { numbersOf } from "./reading.js";

export function neuronView() {
  const head = chosenHeads()[0];
  const neurons = neuronsOf(head);
  const weights = numbersOf(head, "weight");
  const mask = maskOf(head);
  if ([neurons, weights, mask].includes(undefined)) return undefined;
  if (!neurons) {
    const why = `No neurons to show for head ${head.name}: ${facts.whyNot.neurons}.`;
    return html`<p class="notice" id="neuron-notice">${why}</p>`;
  }
  const query = shownQuery();
  const size = facts.neurons;
  const scaling = facts.scaling[Math.floor(head.index / headsPerLayer)];
  const q = neurons.query.subarray(query * size, (query + 1) * size);
  const rows = rowsOf(query, q, scaling, { neurons, weights, mask });
  const largestK = peak(neurons.key);
  const largestProduct = Math.max(...rows.map(({ products }) => peak(products)));
  const top = rows.reduce((best, row) => (row.weight > best.weight ? row : best));
  const at = pointed?.neuron === undefined ? { key: top.key, neuron: largestOf(top.products) } : pointed;
  const digits = neurons.error < 0.01 ? 2 : 1;
  const most = { q: peak(neurons.query), k: largestK, product: largestProduct };
  const sheet = { digits, query, q, rows, at, most };
  const factor = Number(scaling.toPrecision(3));
  return html`
    <p class="hint" id="story">
      In head <b>${head.name}</b> the query <b>${named(query)}</b>${" "}
      ${state.pairs === "all" ? "looks most at" : "looks, of these keys, most at"} <b>${named(top.key)}</b>${" "}
      (weight ${top.weight.toFixed(weightDigits)}). Read a row from left to right: the key's neurons (k), each${" "}
      times the query's neuron above it and times ${factor} (q × k), their sum (q·k), and the softmax over all${" "}
      keys (weight).
    </p>
    <div class="toolbar">
      <${Select} name="keys" title="Keys" options=${[["place", "in the order of the text"], ["weight", "by weight"]]} />
      <${Switch} name="strip" title="Neurons" choices=${sourceCount ? STRIPS.slice(0, 2) : STRIPS} />
      <span class="field scale"><i class="below" /> below zero <i class="above" /> above zero</span>
    </div>
    <p class="hint" id="neuron-reading" aria-live="polite">${neuronLine(sheet, factor)}</p>
    <${QueryChips} query=${query} />
    <${NeuronSheet} ...${sheet} />`;
}

const STRIPS = [["product", "q × k", ""], ["k", "k", "The tokens as keys"], ["q", "q", "The tokens as queries"]];

/** The query: the token under the pointer, else the one that is held, else the first word. */
function shownQuery() {
  const queries = tokensOn("q");
  const wanted = pointed?.peek ?? (state.token ? Number(state.token.slice(1)) : -1);
  return queries.includes(wanted) ? wanted : (queries.find((index) => !facts.special[index]) ?? queries[0]);
}

/** Every number of the view: for each key its neurons, their products with the query's, the sum, and the weight. */
function rowsOf(query, q, scaling, { neurons, weights, mask }) {
  const size = facts.neurons;
  const rows = tokensOn("k").map((key) => {
    const k = neurons.key.subarray(key * size, (key + 1) * size);
    const products = k.map((value, neuron) => value * q[neuron] * scaling);
    const isSeen = mask[(query - sourceCount) * (sourceCount || tokenCount) + key] === 1;
    const logit = isSeen ? products.reduce((sum, value) => sum + value, 0) : NaN;
    const asQuery = neurons.query.subarray(key * size, (key + 1) * size);
    return { key, k, asQuery, products, logit, weight: weights[query * tokenCount + key] };
  });
  return state.keys === "weight" ? rows.sort((a, b) => b.weight - a.weight || a.key - b.key) : rows;
}

const peak = (values) => values.reduce((most, value) => Math.max(most, Math.abs(value)), 1e-9);
const largestOf = (values) => Math.max(0, values.findIndex((value) => Math.abs(value) === peak(values)));

/** One neuron's product, read out. */
function neuronLine({ q, rows, at }, factor) {
  const { key, k, products } = rows.find((row) => row.key === at.key) ?? rows[0];
  const [ofQuery, ofKey] = [q, k].map((values) => signed(values[at.neuron], 2));
  const product = signed(products[at.neuron], 3);
  return html`Neuron ${at.neuron}: q ${ofQuery} × k of ${named(key)} ${ofKey} × ${factor} = ${product}`;
}

/** The tokens to ask from: pointed at, a token is the query for as long; clicked, it is held. */
function QueryChips({ query }) {
  const peek = ({ target, pointerType }) => {
    const chip = target.closest("button");
    if (chip && pointerType !== "touch") point({ peek: Number(chip.value) });
  };
  const hold = (button) => change({ token: `q${button.value}` });
  return html`<div class="field query"><span class="name" id="query-name">Query</span>
    <${Group} id="query" class="chips" role="listbox" aria-labelledby="query-name" dir=${direction()}
      onMove=${hold} onPointerOver=${peek} onPointerLeave=${() => point(null)}>
      ${tokensOn("q").map((index) => html`<button key=${index} type="button" role="option" value=${index}
        class=${facts.special[index] ? "special" : ""} aria-selected=${index === query} title=${tokenName(index)}
        onClick=${(event) => hold(event.currentTarget)}><bdi>${facts.tokens[index]}</bdi></button>`)}
    <//>
  </div>`;
}

/** The sheet: a table, whose rows no page's end cuts on paper, and whose head stays above them. */
function NeuronSheet({ digits, query, q, rows, at, most }) {
  const largest = Math.max(...rows.map(({ logit }) => Math.abs(logit)).filter(Number.isFinite), 1e-9);
  const [left, title, side] = state.strip === "q" ? ["asQuery", "q of each", "q"] : ["k", "k", "k"];
  const move = (event) => {
    const step = STEPS[event.key];
    if (!step || hasModifier(event)) return;
    event.preventDefault();
    const row = clamped(rows.findIndex(({ key }) => key === at.key) + step[1], rows.length);
    point({ key: rows[row].key, neuron: clamped(at.neuron + step[0], q.length) });
    event.currentTarget.querySelector(`[value="${rows[row].key}"]`).focus();
  };
  const strip = (values, scale, key) => {
    const inks = [styleColor("--above"), styleColor("--below")];
    const numberOf = (_, neuron) => values[neuron] / scale;
    const paint = (canvas) => paintSquares(canvas, [0], [...values.keys()], numberOf, ...inks);
    const go = ({ offsetX, target }) => {
      point({ key, neuron: clamped(Math.floor((offsetX / target.clientWidth) * q.length), q.length) });
    };
    const style = { left: `${(100 * at.neuron) / q.length}%`, width: `${100 / q.length}%` };
    return html`<div class="strip">
      <${Canvas} aria-hidden="true" paint=${paint} values=${[values.join(), scale, theme()]}
        onPointerMove=${go} onPointerDown=${go} />
      ${(key === at.key || key === query) && html`<i style=${style} />`}
    </div>`;
  };
  const number = (text, share) => html`<td class="number">${text}
    <${Bar} share=${Math.abs(share) || 0} color=${share < 0 ? "var(--below)" : "var(--above)"} /></td>`;
  const line = (row) => {
    const { key } = row;
    const name = facts.tokens[key];
    const logit = signed(row.logit, digits);
    const weight = row.weight.toFixed(weightDigits);
    return html`<tr key=${key} class=${key === at.key ? "chosen" : ""}>
      <th scope="row"><button type="button" value=${key} class=${facts.special[key] ? "special" : ""}
        tabindex=${key === at.key ? 0 : -1} title="${name} · ${tokenName(key)}"
        aria-label="${name} (${placeOf(key)}), q·k ${logit}, weight ${weight}"
        onFocus=${() => key !== at.key && point({ key, neuron: at.neuron })}><bdi>${name}</bdi></button></th>
      <td class="of-k">${strip(row[left], most[side], key)}</td>
      <td class="of-product">${strip(row.products, most.product, key)}</td>
      ${number(logit, row.logit / largest)}${number(weight, row.weight)}
    </tr>`;
  };
  return html`<table id="sheet" data-strip=${state.strip} onKeyDown=${move}>
    <thead>
      <tr>
        <th>key</th>
        <th class="of-k">${title} <small>±${most[side].toFixed(1)}</small></th>
        <th class="of-product">q × k <small>±${most.product.toFixed(2)}</small></th>
        <th class="number">q·k</th>
        <th class="number">weight</th>
      </tr>
      <tr>
        <td id="query-name"><bdi>${facts.tokens[query]}</bdi></td>
        <td id="query-strip">${strip(q, most.q, query)}</td>
        <td class="note">q, full colour ±${most.q.toFixed(1)}</td><td /><td />
      </tr>
    </thead>
    <tbody id="key-names">
      ${rows.map(line)}
    </tbody>
  </table>`;
}
