// What is shown: one object, kept in the page's address, so that a view can be linked, found again and gone back to.

import { draw, idle } from "./redraw.js";
import {
  amongWords,
  columnsShown,
  facts,
  hasNeurons,
  headNamed,
  inputs,
  kindNamed,
  ofCarried,
  patterns,
  sourceCount,
  take,
  textsOfFile,
  tokenCount,
} from "./data.js";

const VIEW_NAMES = ["model", "head", "neuron", "table"];
export const viewNames = () => VIEW_NAMES.filter((name) => name !== "neuron" || hasNeurons());

/** What is shown unless something else is chosen. */
const usual = () => ({
  input: inputs[0].key, // which kind of attention, or sentence of a treebank
  view: "model",
  by: ofCarried(facts.usual) ? "carried" : "weight", // where heads look, or what they carry
  special: amongWords(facts.usual) ? "out" : "in", // special tokens as keys, or removed
  order: "place",
  only: "", // the one pattern or habit whose heads stand out
  heads: facts.best,
  several: "", // yes: a click on a head adds it, or takes it away
  token: "", // q5 or k5: the query or key that is held
  link: "", // 3-5: heads are ranked by the link from token 3 to token 5
  pairs: "all",
  from: "0.02",
  keys: "place",
  strip: "product", // of the neuron view in a narrow window: product, k or q
  sort: "",
  theme: "",
  ...question.usual(),
});

const isPlace = (text) => /^\d+$/.test(text) && Number(text) < tokenCount;

const allowed = {
  input: (text) => inputs.some(({ key }) => key === text),
  view: (text) => viewNames().includes(text),
  by: (text) => ["weight", "carried"].includes(text) && !(text in facts.whyNot),
  special: (text) => ["in", "out"].includes(text) && !(text in facts.whyNot),
  order: (text) => text === "place" || patterns.some(({ id }) => id === text),
  only: (text) => text === "" || Object.hasOwn(kindNamed, text),
  heads: (text) => text.split(",").every((name) => Object.hasOwn(headNamed, name)),
  several: (text) => ["", "yes"].includes(text),
  token: (text) => text === "" || (/^[qk]/.test(text) && isPlace(text.slice(1))),
  link: (text) => text === "" || (/^\d+-\d+$/.test(text) && text.split("-").every(isPlace)),
  pairs: (text) => text === "all" || (/^[ab][ab]$/.test(text) && hasTwoSentences()),
  from: (text) => Number(text) >= 0 && Number(text) <= 1,
  keys: (text) => ["place", "weight"].includes(text),
  strip: (text) => ["product", "k", "q"].includes(text) && !(sourceCount && text === "q"), // a source asks nothing
  sort: (text) => text === "" || (/^[+-]/.test(text) && columnsShown().includes(text.slice(1))),
  theme: (text) => ["", "light", "dark"].includes(text),
};

/** Put the input of a name in the place of the one that is shown, of those that the page holds. */
async function takeHeldInput(key) {
  const place = inputs.findIndex((each) => each.key === key);
  if (inputs[place] !== facts) await take(inputs[place], textsOfFile(inputs[place]));
}

/**
 * What a live page adds: what else its address keeps, and how it gets an input.
 * @type {{
 *   usual: () => object,
 *   allowed: Record<string, (text: string) => boolean>,
 *   load: (key: string, fields: object) => Promise<void>,
 * }}
 */
let question = { usual: () => ({}), allowed: {}, load: takeHeldInput };

/** Let a live page ask its server. */
export function askWith(fields) {
  question = fields;
}

const isAllowed = (name, text) => (question.allowed[name] ?? allowed[name])(text);

export let state = {};

/** What the pointer is at: { side, index } a token, { query, key, head } a cell or line; of neurons { key, neuron }. */
export let pointed = null; // or { peek }, a token that asks while the pointer is there

/** Show another state, without a step to go back from. */
export function setState(next) {
  state = next;
}

/** The state with what makes no sense for this input as it usually is. */
export function sensible(wanted) {
  const known = Object.entries(usual()).map(([name, value]) => {
    return [name, Object.hasOwn(wanted, name) && isAllowed(name, wanted[name]) ? wanted[name] : value];
  });
  return Object.fromEntries(known);
}

/** Take over what the address says; a head's letter tells its kind of attention. */
export async function readAddress() {
  const fields = Object.fromEntries(new URLSearchParams(location.hash.slice(1)));
  const letter = fields.heads?.replace(/[\d-].*/, "");
  const key = fields.input ?? inputs.find((each) => each.letter === letter)?.key;
  await question.load(isAllowed("input", key) ? key : inputs[0].key, { ...usual(), ...fields });
  state = sensible({ ...fields, input: facts.key });
}

export function address(shown = state) {
  const usually = usual();
  const entries = Object.entries(shown).filter(([name, value]) => value !== usually[name]);
  return `#${new URLSearchParams(entries).toString().replaceAll("%2C", ",")}`;
}

/** Change what is shown; resolves when it is there. Another view, head or input is a step to go back from. */
export function change(changes) {
  const before = state;
  state = { ...state, ...changes };
  const isStep = ["view", "heads", "input"].some((name) => before[name] !== state[name]);
  try {
    history[isStep ? "pushState" : "replaceState"](null, "", address());
  } catch {
    // a page inside another one has no address to keep it in
  }
  draw();
  return idle();
}

export async function chooseInput(key) {
  await question.load(key, { ...state, input: key });
  return change(sensible({ ...state, input: facts.key, token: "", link: "" }));
}

/** The name of the reading that the two switches choose. */
export const reading = () => state.by + (state.special === "out" ? "-words" : "");
export const chosenHeads = () => state.heads.split(",").map((name) => headNamed[name]);

/** Whether a live page has switched a head off. */
export const isOff = (head) => (state.without ?? "").split(",").includes(head.name);

/** Show what is pointed at, or with null nothing. */
export function point(at) {
  if (JSON.stringify(at) === JSON.stringify(pointed)) return;
  pointed = at;
  draw();
}

export const hasTwoSentences = () => !sourceCount && new Set(facts.segments).size > 1;

/** Whether the sentences that are chosen have a token as query, side `q`, or as key, side `k`. */
export function isAsked(index, side) {
  if (sourceCount) return index >= sourceCount === (side === "q"); // the target's tokens look at the source's
  return state.pairs === "all" || facts.segments[index] === "ab".indexOf(state.pairs["qk".indexOf(side)]);
}

/** The tokens that are shown on a side. */
export function tokensOn(side) {
  const all = [...facts.tokens.keys()].filter((index) => isAsked(index, side));
  return amongWords(reading()) && state.view !== "neuron" ? all.filter((index) => !facts.special[index]) : all;
}
