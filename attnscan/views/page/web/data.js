// What the page holds: facts as JSON, and packed numbers that are unpacked when they are first needed.

import { find } from "./dom.js";
import { drawAfter } from "./redraw.js";

export const { inputs, live, treebank } = JSON.parse(find("data").textContent);

/** Of the input that is shown: facts, packed texts, and by each reading what heads do. */
export let facts, texts, tables;
export let allHeads, headNamed, patterns, kindNamed, column;
export let tokenCount, layerCount, headsPerLayer;
export let weightDigits; // with how many decimals weights are shown
export let sourceCount; // of cross attention, how many tokens are the source's, the first ones
export let isOfPairs; // a page of many pairs: labels, scores and profiles, and no tokens
let cache = new Map();

/** The packed texts of an input that the page holds whole. */
export const textsOfFile = ({ texts: held }) => ({ has: (id) => id in held, text: async (id) => held[id] });

/** Put an input in the place of the one that is shown. */
export async function take(nextFacts, nextTexts) {
  const packedTables = await nextTexts.text("tables");
  const nextTables = JSON.parse(new TextDecoder().decode(await unpacked(packedTables)));
  facts = nextFacts;
  texts = nextTexts;
  tables = nextTables;
  cache = new Map();
  tokenCount = facts.tokens.length;
  sourceCount = facts.source ?? 0;
  isOfPairs = tokenCount === 0;
  [layerCount, headsPerLayer] = facts.grid;
  weightDigits = facts.weightSteps >= 1000 ? 3 : 2;
  column = Object.fromEntries(tables[facts.usual].columns.map((name, place) => [name, place]));
  patterns = facts.patterns.filter(({ id }) => id in column);
  kindNamed = Object.fromEntries([...facts.patterns, ...facts.habits].map((kind) => [kind.id, kind]));
  allHeads = facts.heads.map((name, index) => ({ name, index, layer: name.split("-")[0] }));
  headNamed = Object.fromEntries(allHeads.map((head) => [head.name, head]));
}

/** What `make` promises, made once for each key; undefined until it is there, and then the page is drawn again. */
export function once(key, make) {
  const values = cache;
  if (!values.has(key)) {
    values.set(key, undefined);
    drawAfter(make().then((value) => values.set(key, value), () => values.set(key, null)));
  }
  return values.get(key);
}

async function unpacked(text) {
  const bytes = Uint8Array.from(atob(text), (character) => character.charCodeAt(0));
  const stream = new Blob([bytes]).stream().pipeThrough(new DecompressionStream("deflate"));
  return new Uint8Array(await new Response(stream).arrayBuffer());
}

export const bytesOf = async (id) => unpacked(await texts.text(id));

/** Undo the split into high bytes and low bytes. */
export function joined(bytes) {
  const count = bytes.length / 2;
  return Uint16Array.from({ length: count }, (_, place) => (bytes[place] << 8) | bytes[count + place]);
}

export const amongWords = (by) => by.endsWith("words");
export const ofCarried = (by) => by.startsWith("carried");

/** Whether the page has a head's `weights`, `carried` or `neurons`. */
export const holds = (what, head) => texts.has(`${what}-${head.name}`);
export const hasNeurons = () => allHeads.some((head) => holds("neurons", head));

/** Which columns are shown: not errors and the ends of intervals, which stand in the CSV and on a head's card. */
export function columnsShown() {
  const bounds = patterns.flatMap(({ id }) => [`${id}_low`, `${id}_high`]);
  const isShown = (name) => !bounds.includes(name) && !facts.columns[name]?.isError;
  return ["head", ...Object.keys(column).slice(column.name + 1).filter(isShown)];
}

/**
 * Rows in steps as numbers: each row is held as its sum over words, where 65535 is 1, the shares of words among
 * themselves, and the weights on special tokens; of a source as query there is no row.
 */
export function numbersIn(rows, by) {
  const keys = sourceCount || tokenCount;
  const numbers = new Float32Array(tokenCount * tokenCount);
  for (let query = sourceCount, start = 0; query < tokenCount; query++, start += keys + 1) {
    for (let key = 0; key < keys; key++) {
      const share = rows[start + 1 + key] / facts.weightSteps;
      const [ofWord, ofSpecial] = amongWords(by) ? [share, 0] : [(share * rows[start]) / 65535, share];
      numbers[query * tokenCount + key] = facts.special[key] ? ofSpecial : ofWord;
    }
  }
  return numbers;
}

/**
 * Rows of what is carried: norms come first, then how far each number is from what rounded weights and norms of words
 * make of it, 128 for no difference, modulo 2^16 as all numbers of its array.
 * Sums are whole and below 2^53, so that every browser finds the same ones.
 */
export function carriedRows(weights, held) {
  const across = (sourceCount || tokenCount) + 1;
  const norms = held.subarray(0, across).map((norm, place) => (facts.special[place - 1] ? 0 : norm));
  const rows = held.slice(across);
  for (let start = 0; start < rows.length; start += across) {
    const products = Array.from(norms, (norm, place) => weights[start + place] * norm);
    const whole = Math.max(1, products.reduce((sum, product) => sum + product)); // a row may carry nothing
    for (let place = 1; place < across; place++) {
      rows[start + place] += Math.floor((products[place] * facts.weightSteps) / whole + 0.5) - 128;
    }
  }
  return rows;
}

/** A head's queries and keys, each [token × neuron] in one array; null if the page does not hold them. */
export function neuronsOf(head) {
  if (!holds("neurons", head)) return null;
  return once(`neurons-${head.name}`, async () => {
    const [error, zero, ofQuery, ofKey, packed] = (await texts.text(`neurons-${head.name}`)).split(",");
    const steps = joined(await unpacked(packed));
    const half = steps.length / 2;
    const part = (side, worth) => Float32Array.from(side, (step) => (step - zero) * worth);
    return { error, query: part(steps.subarray(0, half), ofQuery), key: part(steps.subarray(half), ofKey) };
  });
}

/** Which keys each query sees, [query × key]. */
export function maskOf(head) {
  const mask = `mask-${facts.maskOfLayer[Math.floor(head.index / headsPerLayer)]}`;
  return once(mask, () => bytesOf(mask));
}
