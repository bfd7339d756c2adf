// What the page holds: facts as JSON, and packed numbers that are unpacked when they are first needed.

const { inputs, live, treebank } = JSON.parse(find("data").textContent);

let facts, texts, tables; // of the input that is shown: facts, packed texts, and by each reading what heads do
let heads, headNamed, patterns, kindNamed, column;
let LENGTH, LAYERS, HEADS, DIGITS;
let SOURCE; // of cross attention, how many tokens are the source's, the first ones
let OF_PAIRS; // a page of many pairs: labels, scores and profiles, and no tokens
let cache = new Map();
let waiting = 0; // how many things are being unpacked
const whenIdle = [];

/** The packed texts of an input that the page holds whole. */
const textsOfFile = ({ texts: held }) => ({ has: (id) => id in held, text: async (id) => held[id] });

/** Put an input in the place of the one that is shown. */
async function take(nextFacts, nextTexts) {
  const nextTables = JSON.parse(new TextDecoder().decode(await unpacked(await nextTexts.text("tables"))));
  [facts, texts, tables, cache] = [nextFacts, nextTexts, nextTables, new Map()];
  [LENGTH, SOURCE, OF_PAIRS] = [facts.tokens.length, facts.source ?? 0, facts.tokens.length === 0];
  [[LAYERS, HEADS], DIGITS] = [facts.grid, facts.weightSteps >= 1000 ? 3 : 2];
  column = Object.fromEntries(tables[facts.usual].columns.map((name, place) => [name, place]));
  patterns = facts.patterns.filter(({ id }) => id in column);
  kindNamed = Object.fromEntries([...facts.patterns, ...facts.habits].map((kind) => [kind.id, kind]));
  heads = facts.heads.map((name, index) => ({ name, index, layer: name.split("-")[0] }));
  headNamed = Object.fromEntries(heads.map((head) => [head.name, head]));
}

/** What `make` promises, made once for each key; undefined until it is there, and then the page is drawn again. */
function once(key, make) {
  const values = cache;
  if (!values.has(key)) {
    values.set(key, undefined);
    waiting += 1;
    make()
      .then((value) => values.set(key, value), () => values.set(key, null))
      .finally(() => {
        waiting -= 1;
        if (!waiting) draw();
      });
  }
  return values.get(key);
}

async function unpacked(text) {
  const bytes = Uint8Array.from(atob(text), (character) => character.charCodeAt(0));
  const stream = new Blob([bytes]).stream().pipeThrough(new DecompressionStream("deflate"));
  return new Uint8Array(await new Response(stream).arrayBuffer());
}

const bytesOf = async (id) => unpacked(await texts.text(id));

/** Undo the split into high bytes and low bytes. */
function joined(bytes) {
  const count = bytes.length / 2;
  return Uint16Array.from({ length: count }, (_, place) => (bytes[place] << 8) | bytes[count + place]);
}

/** The name of the reading that the two switches choose. */
const reading = () => state.by + (state.special === "out" ? "-words" : "");
const amongWords = (by) => by.endsWith("words");
const ofCarried = (by) => by.startsWith("carried");

/** What the table has in a column of a head's line; nothing if there is none of that name. */
const cellOf = (head, name, by = reading()) => tables[by].rows[head.index][column[name]] ?? "";

/** What an even spread would score for a pattern; null where no word was eligible. */
const chanceOf = (head, { id }) => tables[reading()].chance[head.index][patterns.indexOf(kindNamed[id])];

/** How far above chance a head's score is, in [0, 1]; 0 where it is not distinguished from chance. */
function aboveChance(head, { id }) {
  const [score, chance, low] = [cellOf(head, id), chanceOf(head, { id }), cellOf(head, `${id}_low`)];
  if (score === "" || chance === null || chance >= 1 || (low !== "" && Number(low) <= chance)) return 0;
  return Math.max(0, (Number(score) - chance) / (1 - chance));
}

/** Whether a head's label would not stay, or rests on too little to tell. */
const isUnsure = (head, by = reading()) => tables[by].unsure[head.index] === 1;

/** Whether more than half of a head's attention is on special tokens. */
const rests = (head) => tables[reading()].rests[head.index] === 1;

/** What a head does among words: the pattern that it follows, else its habit. Its letter is on every map. */
const kindOf = (head, by = reading()) => kindNamed[cellOf(head, "among_words", by)] ?? kindNamed.none;

/** Whether a head is of a kind: of `delimiter` those that rest. */
const isOf = (head, id) => (id === "delimiter" ? cellOf(head, "label") : kindOf(head).id) === id;

/** What heads may do, with how many do it: the patterns, the habits that some have, most heads first, and neither. */
function kindsShown() {
  const counted = (kind) => ({ ...kind, count: heads.filter((head) => isOf(head, kind.id)).length });
  const habits = facts.habits.filter(({ id }) => id !== "none").map(counted);
  const had = habits.filter(({ id, count }) => count || id === state.only).sort((a, b) => b.count - a.count);
  return [...facts.patterns.map(counted), ...had, counted(kindNamed.none)];
}

/** What a head does, with its numbers. */
const statementOf = (head) => tables[reading()].does[head.index] ?? kindOf(head).words;

/** A head's letter as on every map, and a question mark if what it does is not sure. */
const markOf = (head) => kindOf(head).letter + (isUnsure(head) ? "?" : "");

/** Whether the page has a head's `weights`, `carried` or `neurons`. */
const holds = (what, head) => texts.has(`${what}-${head.name}`);

/** A head's numbers by the reading, [query × key] in one array; null if the page does not hold them. */
function numbersOf(head, by = reading()) {
  if (!holds(ofCarried(by) ? "carried" : "weights", head)) return null;
  return once(`${by}-${head.name}`, async () => {
    const weights = joined(await bytesOf(`weights-${head.name}`));
    if (!ofCarried(by)) return numbersIn(weights, by);
    return numbersIn(carriedRows(weights, joined(await bytesOf(`carried-${head.name}`))), by);
  });
}

/**
 * Rows in steps as numbers: each row is held as its sum over words, where 65535 is 1, the shares of words among
 * themselves, and the weights on special tokens; of a source as query there is no row.
 */
function numbersIn(rows, by) {
  const keys = SOURCE || LENGTH;
  const numbers = new Float32Array(LENGTH * LENGTH);
  for (let query = SOURCE, start = 0; query < LENGTH; query++, start += keys + 1) {
    for (let key = 0; key < keys; key++) {
      const share = rows[start + 1 + key] / facts.weightSteps;
      const [ofWord, ofSpecial] = amongWords(by) ? [share, 0] : [(share * rows[start]) / 65535, share];
      numbers[query * LENGTH + key] = facts.special[key] ? ofSpecial : ofWord;
    }
  }
  return numbers;
}

/**
 * Rows of what is carried: norms come first, then how far each number is from what rounded weights and norms of words
 * make of it, 128 for no difference, modulo 2^16 as all numbers of its array.
 * Sums are whole and below 2^53, so that every browser finds the same ones.
 */
function carriedRows(weights, held) {
  const across = (SOURCE || LENGTH) + 1;
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
function neuronsOf(head) {
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
function maskOf(head) {
  const mask = `mask-${facts.maskOfLayer[Math.floor(head.index / HEADS)]}`;
  return once(mask, () => bytesOf(mask));
}

/** Every head made small, in the reading that is shown. */
const thumbnails = () => once(`thumbnails-${reading()}`, () => bytesOf(`thumbnails-of-${reading()}`));
