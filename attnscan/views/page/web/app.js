// Puts the views together: header, tabs, theme, printing, and what to draw when something changed.

import { html, render, useRef } from "./preact.js";
import { find, Group } from "./dom.js";
import { draw, drawBy, goOn, isWaiting } from "./redraw.js";
import { facts, headsPerLayer, inputs, layerCount, sourceCount, tables, take, tokenCount } from "./data.js";
import { change, chooseInput, hasTwoSentences, readAddress, reading, state, viewNames } from "./state.js";
import { followTheme, theme } from "./theme.js";
import { direction } from "./tokens.js";
import { Select, Switch } from "./controls.js";
import { Aside } from "./aside.js";
import { modelView } from "./model.js";
import { headView } from "./head.js";
import { neuronView } from "./neuron.js";
import { tableView } from "./table.js";

const VIEWS = { model: modelView, head: headView, neuron: neuronView, table: tableView };

const READINGS = {
  by: [
    ["weight", "looks", "Attention weights"],
    ["carried", "carries", "What heads carry: attention weight times the norm of the value"],
  ],
  special: [
    ["in", "in", "Special tokens are keys, as in the model"],
    ["out", "out", "Special tokens are removed, and each row is renormalised over words"],
  ],
};

const KINDS = {
  encoder: "From words of the source to each other",
  decoder: "From words of the target to those before them",
  cross: "From words of the target to those of the source",
};

const DIRECTIONS = { all: "all", aa: "A → A", ab: "A → B", ba: "B → A", bb: "B → B" };

/** Draw what the state says; the page is marked as settled once all of it is there. */
function paintPage(parts) {
  const root = document.documentElement;
  Object.assign(root.dataset, { settled: "no", theme: theme(), view: state.view });
  render(html`<${App} parts=${parts} />`, find("app"));
  paintCounts();
  parts.follow?.();
  if (isWaiting()) return;
  root.dataset.settled = "yes";
  goOn();
}

function App({ parts }) {
  const isBeside = ["head", "neuron"].includes(state.view);
  const other = theme() === "dark" ? "light" : "dark";
  const size = sourceCount ? `${sourceCount} source and ${tokenCount - sourceCount} target tokens` : facts.subtitle;
  const panel = html`<section id=${state.view} key=${state.view} role="tabpanel" aria-labelledby="tab-${state.view}">
    <${View} drawView=${VIEWS[state.view]} />
  </section>`;
  return html`
    <header>
      <button type="button" id="skip" onClick=${skip}>Skip to the heads</button>
      <div class="title">
        <h1>${facts.title}</h1>
        <p class="facts">
          <span id="grid">${layerCount} layers × ${headsPerLayer} heads</span> · <span id="size">${size}</span>${" "}
          · ${facts.device}
        </p>
        <button type="button" id="theme" class="plain" aria-label="Change to the ${other} theme"
          onClick=${() => change({ theme: other })}>
          ${other[0].toUpperCase() + other.slice(1)}</button>
      </div>
      ${parts.Asked ? html`<${parts.Asked} />` : html`<${Sentences} />`}
      <h2 id="summary">${tables[reading()].summary}</h2>
      <div class="views">
        <${Group} id="tabs" role="tablist" aria-label="Views" onMove=${(tab) => tab.click()}>
          ${viewNames().map((name) => html`<button type="button" role="tab" id="tab-${name}" value=${name}
            aria-controls=${name} aria-selected=${state.view === name} onClick=${() => change({ view: name })}>
            ${name[0].toUpperCase() + name.slice(1)}</button>`)}
        <//>
        <div class="choices"><${Choices} /></div>
      </div>
    </header>
    <main>${isBeside ? html`<div id="beside"><${Aside} SwitchOff=${parts.SwitchOff} />${panel}</div>` : panel}</main>`;
}

/** A view or, while something of it is being unpacked, what it drew last. */
function View({ drawView }) {
  const last = useRef(null);
  const drawn = drawView();
  if (drawn !== undefined) last.current = drawn;
  return last.current;
}

/** The switches above every view; a softmax is over all keys, and so the neuron view has no reading. */
function Choices() {
  const choices = (name) => READINGS[name].map((choice) => [...choice, facts.whyNot[choice[0]]]);
  const kinds = inputs.map(({ key }) => [key, key, KINDS[key]]);
  return html`
    ${inputs.length > 1 && !facts.tree && html`
      <${Switch} name="input" title="Attention" choices=${kinds} onChoose=${chooseInput} />`}
    ${state.view !== "neuron" && html`
      <${Switch} name="by" title="Head" choices=${choices("by")} />
      <${Switch} name="special" title="Special tokens" choices=${choices("special")} />`}
    ${state.view !== "table" && hasTwoSentences() && html`
      <${Select} name="pairs" title="Attention" options=${Object.entries(DIRECTIONS)} />`}`;
}

/** The texts that the page is of; of a treebank, a list to choose a sentence from. */
function Sentences() {
  if (facts.tree) {
    const options = inputs.map(({ key, tree }) => [key, `${key}: ${tree.text}`]);
    return html`<div class="sentences">
      <${Select} name="input" title="Sentence" options=${options} onChoose=${chooseInput} />
    </div>`;
  }
  const segments = [...new Set(facts.segments)].sort();
  const words = (segment) => [...facts.tokens.keys()].filter((index) => facts.segments[index] === segment);
  const word = (index) => (facts.special[index] ? html`<i>${facts.tokens[index]}</i> ` : `${facts.tokens[index]} `);
  return html`<div class="sentences">
    ${segments.map((segment) => html`<p>
      <b>${"AB"[segment]}</b> <span dir=${direction()}>${words(segment).map(word)}</span>
    </p>`)}
  </div>`;
}

/** To what the view is about: a head's thumbnail, its tokens, its row. */
function skip() {
  const places = ["#thumbnails", "#queries", "#query", "#picker", "#scores tbody"];
  const selectors = places.map((place) => `${place} [tabindex="0"]`);
  /** @type {HTMLElement} */ (document.querySelector(selectors.join())).focus();
}

/** What each pattern counts, below the views: of the kind of attention that is shown. */
function paintCounts() {
  const entries = facts.patterns.map(({ letter, id, counts, whyNone }) => html`
    <dt>${letter} ${id}</dt><dd>${counts}${whyNone && ` (not measured: ${whyNone})`}</dd>`);
  render(html`${entries}`, find("counts"));
}

/** Show what the address says. */
async function arrive() {
  await readAddress();
  draw();
}

/**
 * Start the page on its first input. A live page brings `parts` of its own: `Asked`, in place of the sentences;
 * `SwitchOff`, beside the heads; and `follow`, which is called whenever the page has been drawn.
 */
export async function start(firstTexts, parts = {}) {
  drawBy(() => paintPage(parts));
  await take(inputs[0], firstTexts);
  await arrive();
  for (const name of ["popstate", "hashchange"]) window.addEventListener(name, arrive);
  followTheme();
  window.addEventListener("resize", draw);
  document.addEventListener("keydown", ({ key }) => key === "Escape" && state.view === "head" && change({ token: "" }));
}
