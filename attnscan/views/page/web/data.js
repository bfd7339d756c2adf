// What the page holds: the facts as JSON, and packed numbers that are unpacked when they are first needed.

if (!("DecompressionStream" in window))
  notice("trouble", "This browser cannot unpack what the page carries: it needs one of 2023 or later.");

const facts = JSON.parse(document.getElementById("data").textContent);
const [LAYERS, HEADS] = facts.grid;
const LENGTH = facts.tokens.length;
const pattern = Object.fromEntries(facts.patterns.map((each) => [each.id, each]));
const scored = facts.patterns.map((each) => each.id).filter((id) => facts.columns.includes(id));
const column = Object.fromEntries(facts.columns.map((name, index) => [name, index]));
const NAMES = column.head + 1;
const FIRST_SCORE = column.content_label + 1;

/** The cells of the CSV column by column, and then of each column but the names' in each of the other readings. */
const cells = JSON.parse(new TextDecoder().decode(await bytesOf("table-bytes")));

/**
 * Every head, layer by layer. `rows` is its line of the CSV in each reading, as `attnscan classify --csv` writes it:
 * by weight, on words alone (--without-delimiters), and by what is carried (--norm).
 */
const heads = cells[column.layer].map((layer, index) => ({
  name: `${layer}-${cells[column.head][index]}`,
  layer: Math.floor(index / HEADS),
  head: index % HEADS,
  index,
  rows: Object.fromEntries(
    ["weight", ...facts.readings].map((reading, number) => {
      const before = number * (facts.columns.length - NAMES); // cells of the readings that come first
      return [reading, facts.columns.map((_, place) => cells[place < NAMES ? place : before + place][index])];
    }),
  ),
}));
/** By reading, what every head's attention is made of: how much is unexplained, and its largest parts with shares. */
const profiles = document.getElementById("profile-bytes")
  ? JSON.parse(new TextDecoder().decode(await bytesOf("profile-bytes")))
  : {};
const headNamed = new Map(heads.map((head) => [head.name, head]));

/** A head's line of the CSV in the reading that is shown. */
const rowOf = (head) => head.rows[state.by];

/** Its scores as the CSV's text, in the order of `scored`. */
function scoresOf(head) {
  return rowOf(head).slice(FIRST_SCORE, FIRST_SCORE + scored.length);
}

function labelOf(head) {
  return rowOf(head)[state.by === "words" ? column.content_label : column.label];
}

/** Whether the page has a head's `weights`, `carried` or `neurons`. */
function holds(kind, head) {
  return document.getElementById(`${kind}-${head.name}`) !== null;
}

async function bytesOf(id) {
  const packed = atob(document.getElementById(id).textContent);
  const bytes = Uint8Array.from(packed, (character) => character.charCodeAt(0));
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

/** What `make` gives, made once for each key. */
function once(key, make) {
  if (!unpacked.has(key)) unpacked.set(key, make());
  return unpacked.get(key);
}

const inSteps = (steps) => Float32Array.from(steps, (step) => step / facts.weightSteps);

/** A head's weights, [query × key] in one array; null if the page does not hold them. */
function weightsOf(head) {
  if (!holds("weights", head)) return Promise.resolve(null);
  return once(`weights-${head.name}`, async () => inSteps(joined(await bytesOf(`weights-${head.name}`))));
}

/** What a head carries, likewise: each weight times its key's norm, as a share of its row. */
function carriedOf(head) {
  if (!holds("carried", head)) return Promise.resolve(null);
  return once(`carried-${head.name}`, async () => {
    const [weights, packed] = await Promise.all(["weights", "carried"].map((kind) => bytesOf(`${kind}-${head.name}`)));
    return inSteps(carriedSteps(joined(weights), joined(packed)));
  });
}

/**
 * Undo what the page was made with: norms come first, then how far each share is from what rounded weights and norms
 * make of it. All numbers are whole and below 2^53, so that every browser finds the same ones.
 */
function carriedSteps(weights, packed) {
  const carried = new Uint16Array(weights.length);
  for (let start = 0; start < weights.length; start += LENGTH) {
    let whole = 0;
    for (let key = 0; key < LENGTH; key++) whole += weights[start + key] * packed[key];
    whole = Math.max(whole, 1); // a row that carries nothing stays zero
    for (let key = 0; key < LENGTH; key++) {
      const share = 2 * weights[start + key] * packed[key] * facts.weightSteps;
      const off = packed[LENGTH + start + key];
      carried[start + key] = Math.floor((share + whole) / (2 * whole)) + (off % 2 ? -(off + 1) / 2 : off / 2);
    }
  }
  return carried;
}

/** The numbers of the reading that is shown. */
const shownOf = (head) => (state.by === "carried" ? carriedOf(head) : weightsOf(head));

/** A head's queries and keys, each [token × neuron] in one array; null if the page does not hold them. */
function neuronsOf(head) {
  if (!holds("neurons", head)) return Promise.resolve(null);
  return once(`neurons-${head.name}`, async () => {
    const { zero, worth } = facts.neuron.of[head.name];
    const steps = joined(await bytesOf(`neurons-${head.name}`));
    const half = steps.length / 2;
    const part = (start, size) =>
      Float32Array.from(steps.subarray(start, start + half), (step) => (step - zero) * size);
    return { query: part(0, worth[0]), key: part(half, worth[1]) };
  });
}

/** Which keys each query sees, [query × key]; null if every query sees every key. */
function maskOf(layer) {
  const mask = facts.maskOfLayer[layer];
  return mask === undefined ? Promise.resolve(null) : once(`mask-${mask}`, () => bytesOf(`mask-${mask}`));
}

/** Every head made small, in the reading that is shown. */
function thumbnails() {
  const id = state.by === "carried" ? "carried-thumbnail-bytes" : "thumbnail-bytes";
  return once(id, () => bytesOf(id));
}
