// What the page holds: the facts as JSON, and packed numbers that are unpacked when they are first needed.

if (!("DecompressionStream" in window))
  notice("trouble", "This browser cannot unpack what the page carries: it needs one of 2023 or later.");

const facts = JSON.parse(document.getElementById("data").textContent);
const OF_PAIRS = facts.tokens.length === 0; // a page of many pairs: labels, scores and profiles, and no tokens
let inputs = 0; // how many have taken the place of the first one: what was waited for may be of an earlier one
let prefix = ""; // of the ids of texts, where the page has several inputs

/** Where packed texts are, by their ids: in the page itself. A live page asks for those of heads. */
const cargo = {
  has: (id) => document.getElementById(prefix + id) !== null,
  text: (id) => document.getElementById(prefix + id).textContent,
};

/** What the page says of every head: the columns of the CSV by reading, its marks, and what chance would score. */
let packed = await factsOfHeads("table-bytes");
/** By reading, where every head's attention goes: classes of keys with their shares, largest first. */
let profiles = cargo.has("profile-bytes") ? await factsOfHeads("profile-bytes") : {};

let LENGTH, SOURCE, DIGITS; // how many tokens there are; of cross attention, how many are the source's, the first ones
let LAYERS, HEADS, NAMES;
let pattern, scored, column, heads, headNamed, kinds, kindNamed;

/** Take the numbers of tokens from the facts. */
function countTokens() {
  [LENGTH, SOURCE, DIGITS] = [facts.tokens.length, facts.source ?? 0, facts.weightSteps >= 1000 ? 3 : 2];
}

/** How many tokens there are, in words. */
const sizeOfInput = () => (SOURCE ? `${SOURCE} source and ${LENGTH - SOURCE} target tokens` : `${LENGTH} tokens`);

/** Take from the facts which heads there are, what they are scored for and what they may do. */
function nameHeads() {
  [LAYERS, HEADS] = facts.grid;
  pattern = Object.fromEntries(facts.patterns.map((kind) => [kind.id, kind]));
  scored = facts.patterns.map(({ id }) => id).filter((id) => facts.columns.includes(id));
  column = Object.fromEntries(facts.columns.map((name, index) => [name, index]));
  NAMES = column.name + 1;
  heads = columnOf("layer").map((layer, index) => ({
    name: `${facts.letter}${layer}-${packed.names[column.head][index]}`,
    layer: Math.floor(index / HEADS),
    layerNumber: layer,
    head: index % HEADS,
    index,
  }));
  headNamed = new Map(heads.map((head) => [head.name, head]));
  const [letter, words, color, ink] = facts.none;
  kinds = Object.fromEntries(
    Object.entries(facts.habits).map(([id, [letter, words, color, ink]]) => {
      return [id, { id, words, letter, color, ink, counts: `A habit: attention on ${words}` }];
    }),
  );
  kinds.none = { id: "none", words, letter, color, ink, counts: "Nothing tells them from the average head" };
  kindNamed = Object.fromEntries([...facts.patterns, ...Object.values(kinds)].map((kind) => [kind.id, kind]));
}

countTokens();
nameHeads();

/** Put another input in the place of the one that is shown, with what is said of every head. */
function takeInput(next, table, more = {}) {
  Object.assign(facts, next);
  [packed, profiles] = [table, more];
  unpacked.clear();
  inputs += 1;
  countTokens();
}

/** A column of the CSV in a reading; one that another reading has as well is held once, and its place stands here. */
function columnOf(name, by) {
  const place = column[name];
  if (place < NAMES) return packed.names[place];
  const cells = packed.cells[facts.readings.indexOf(by)][place - NAMES];
  return Array.isArray(cells) ? cells : packed.cells[cells][place - NAMES];
}

/** How many sentences tokens are of. */
const segmentsOf = (segments) => new Set(segments).size;

const amongWords = (by) => by === "words" || by === "carried-words";
const ofCarried = (by) => by.startsWith("carried");

const hasColumn = (name) => Object.hasOwn(column, name);

/** What a head's line of the CSV has in a column; nothing if there is none of that name. */
const cellOf = (head, name, by = reading()) => (hasColumn(name) ? columnOf(name, by)[head.index] : "");

/** A head's line of the CSV in the reading that is shown. */
const rowOf = (head) => facts.columns.map((name) => cellOf(head, name));

/** A head's score for a pattern as the CSV's text. */
const scoreOf = (head, id) => cellOf(head, id);

/** Why no head has a score for a pattern. */
function whyNone(id) {
  if (pattern[id].whyNone) return `not measured: ${pattern[id].whyNone}`;
  return `no word of ${OF_PAIRS ? "these pairs" : "this input"} is eligible`;
}

/** What an even spread would score for a pattern; null where no word was eligible. */
function chanceOf(head, id) {
  const chance = packed.chance[reading()][scored.indexOf(id)];
  return Array.isArray(chance) ? chance[head.index] : chance;
}

/** How far above chance a head's score is, in [0, 1]; 0 where it cannot be told from chance. */
function aboveChance(head, id) {
  const score = scoreOf(head, id);
  const chance = chanceOf(head, id);
  if (score === "" || chance === null || chance >= 1) return 0;
  const low = cellOf(head, `${id}_low`);
  if (low !== "" && Number(low) <= chance) return 0;
  return Math.max(0, (Number(score) - chance) / (1 - chance));
}

/** What a head does by a reading: the table's column `label`, `delimiter` of one that rests. */
const labelOf = (head, by = reading()) => cellOf(head, "label", by);

/** Whether a head's label would not stay, or rests on too little to tell. */
const isUnsure = (head, by = reading()) => Number(packed.marks[by][head.index]) % 2 === 1;

/** Whether more than half of a head's attention is on special tokens. */
const rests = (head) => Number(packed.marks[reading()][head.index]) >= 2;

/** What a head does among words: the pattern that it follows, else its habit. Its letter is on every map. */
const kindOf = (head, by = reading()) => kindNamed[cellOf(head, "among_words", by)] ?? kinds.none;

/** Whether a head is of a kind: of `delimiter` those that rest. */
const isOf = (head, id) => (id === "delimiter" ? labelOf(head) : kindOf(head).id) === id;

/** How many heads are of a kind. */
const countOf = (id) => heads.filter((head) => isOf(head, id)).length;

/** What heads may do: the patterns, the habits that some have, most heads first, and neither. */
function kindsShown() {
  const habits = Object.values(kinds).filter(({ id }) => id !== "none" && (countOf(id) || id === state.only));
  return [...facts.patterns, ...habits.sort((a, b) => countOf(b.id) - countOf(a.id)), kinds.none];
}

/** What a head does, with its numbers. */
const toldOf = (head) => packed.does[reading()][head.index] ?? kindOf(head).words;

/** A head's letter as on every map, and a question mark if what it does is not sure. */
const markOf = (head) => kindOf(head).letter + (isUnsure(head) ? "?" : "");

/** Whether the page has a head's `weights`, `carried` or `neurons`. */
function holds(kind, head) {
  return cargo.has(`${kind}-${head.name}`);
}

async function factsIn(text) {
  return JSON.parse(new TextDecoder().decode(await unpackedBytes(text)));
}

/** What the page has of every head under a prefix; nothing where it has nothing. */
async function factsOfInput(before, id) {
  const text = document.getElementById(before + id);
  return text ? factsIn(text.textContent) : {};
}

async function factsOfHeads(id) {
  return factsIn(await cargo.text(id));
}

async function bytesOf(id) {
  return unpackedBytes(await cargo.text(id));
}

async function unpackedBytes(text) {
  const packed = atob(text);
  const bytes = new Uint8Array(packed.length);
  for (let i = 0; i < bytes.length; i++) bytes[i] = packed.charCodeAt(i);
  const stream = new DecompressionStream("deflate");
  const writer = stream.writable.getWriter();
  for (const writing of [writer.write(bytes), writer.close()]) writing.catch(() => {}); // reading fails as well
  return new Uint8Array(await new Response(stream.readable).arrayBuffer());
}

/** Undo the split into high bytes and low bytes. */
function joined(bytes) {
  const count = bytes.length / 2;
  const values = new Uint16Array(count);
  for (let i = 0; i < count; i++) values[i] = (bytes[i] << 8) | bytes[count + i];
  return values;
}

const unpacked = new Map();

/** What `make` promises, made once for each key; what fails is made again. */
function once(key, make) {
  if (!unpacked.has(key)) {
    const made = make();
    unpacked.set(key, made);
    made.catch(() => unpacked.get(key) === made && unpacked.delete(key));
  }
  return unpacked.get(key);
}

const SUM_STEPS = 65535;

/**
 * A head's numbers by a reading, [query × key] in one array; null if the page does not hold them. A row is held as its
 * sum over words, the shares of words among themselves, and the weights on special tokens.
 */
function numbersOf(head, by) {
  const kind = ofCarried(by) ? "carried" : "weights";
  if (!holds(kind, head)) return Promise.resolve(null);
  return once(`${by}-${head.name}`, async () => {
    return numbersIn(await rowsOf(kind, head), by, facts);
  });
}

/** Rows in steps, of an input with such tokens, as numbers by a reading; of a source as query there is no row. */
function numbersIn(rows, by, { special, weightSteps, source }) {
  const length = special.length;
  const keys = source || length;
  const numbers = new Float32Array(length * length);
  const among = amongWords(by);
  for (let query = source, start = 0; query < length; query++, start += keys + 1) {
    const whole = rows[start] / SUM_STEPS / weightSteps;
    for (let key = 0, at = query * length; key < keys; key++, at++) {
      if (among) numbers[at] = special[key] ? 0 : rows[start + 1 + key] / weightSteps;
      else numbers[at] = rows[start + 1 + key] * (special[key] ? 1 / weightSteps : whole);
    }
  }
  return numbers;
}

const weightsOf = (head) => numbersOf(head, "weight");

/** A head's rows in steps: of weights as they are held, of what is carried made from these. */
function rowsOf(kind, head) {
  return once(`rows-${kind}-${head.name}`, async () => {
    const held = joined(await bytesOf(`${kind}-${head.name}`));
    return kind === "weights" ? held : carriedRows(await rowsOf("weights", head), held, facts);
  });
}

/**
 * Undo what the page was made with: norms come first, then how far each share is from what rounded shares and norms
 * make of it. All numbers are whole and below 2^53, so that every browser finds the same ones.
 */
function carriedRows(weights, held, { special, weightSteps, source }) {
  const across = (source || special.length) + 1;
  const norms = held.subarray(0, across);
  const rows = held.slice(across);
  for (let start = 0; start < rows.length; start += across) {
    let whole = 0;
    for (let key = 1; key < across; key++) if (!special[key - 1]) whole += weights[start + key] * norms[key];
    whole = Math.max(whole, 1); // a row that carries nothing stays zero
    for (let key = 1; key < across; key++) {
      if (special[key - 1]) continue;
      const share = 2 * weights[start + key] * norms[key] * weightSteps;
      const off = rows[start + key];
      rows[start + key] = Math.floor((share + whole) / (2 * whole)) + (off % 2 ? -(off + 1) / 2 : off / 2);
    }
  }
  return rows;
}

/** The numbers of the reading that is shown. */
const shownOf = (head) => numbersOf(head, reading());

/** A head's queries and keys, each [token × neuron] in one array; null if the page does not hold them. */
function neuronsOf(head) {
  if (!holds("neurons", head)) return Promise.resolve(null);
  return once(`neurons-${head.name}`, async () => {
    const steps = joined(await bytesOf(`neurons-${head.name}`));
    const known = facts.neuron.of[head.name]; // in a live page, it comes with the bytes
    if (!known) return null; // another input has taken their place
    const { zero, worth } = known;
    const half = steps.length / 2;
    const part = (start, size) =>
      Float32Array.from(steps.subarray(start, start + half), (step) => (step - zero) * size);
    return { query: part(0, worth[0]), key: part(half, worth[1]) };
  });
}

/** Where a cell stands in an array [query × key]: of cross attention, of the target's tokens and the source's. */
const cellPlace = (query, key) => (query - SOURCE) * (SOURCE || LENGTH) + key;

/** Which keys each query sees, [query × key]; null if every query sees every key. */
function maskOf(layer) {
  const mask = facts.maskOfLayer[layer];
  return mask === undefined ? Promise.resolve(null) : once(`mask-${mask}`, () => bytesOf(`mask-${mask}`));
}

/** Every head made small, in the reading that is shown. */
function thumbnails() {
  const id = `thumbnails-of-${reading()}`;
  return once(id, () => bytesOf(id));
}
