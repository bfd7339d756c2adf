// What the page holds: the facts as JSON, and packed numbers that are unpacked when they are first needed.

if (!("DecompressionStream" in window))
  notice("trouble", "This browser cannot unpack what the page carries: it needs one of 2023 or later.");

const facts = JSON.parse(document.getElementById("data").textContent);
const [LAYERS, HEADS] = facts.grid;
const LENGTH = facts.tokens.length;
const pattern = Object.fromEntries(facts.patterns.map((each) => [each.id, each]));
const scored = facts.patterns.map((each) => each.id).filter((id) => facts.columns.includes(id));
const column = Object.fromEntries(facts.columns.map((name, index) => [name, index]));
const FIRST_SCORE = column.content_label + 1;

/** The cells of the CSV column by column, and then those that differ with delimiters left out. */
const cells = JSON.parse(new TextDecoder().decode(await bytesOf("table-bytes")));

/** Every head, layer by layer. `row` is its line of the CSV; `onWords` its numbers with delimiters left out. */
const heads = cells[column.layer].map((layer, index) => ({
  name: `${layer}-${cells[column.head][index]}`,
  layer: Math.floor(index / HEADS),
  head: index % HEADS,
  index,
  row: facts.columns.map((_, place) => cells[place][index]),
  onWords: cells.slice(facts.columns.length).map((ofColumn) => ofColumn[index]),
}));
const headNamed = new Map(heads.map((head) => [head.name, head]));

/** A head's scores as the CSV's text, in the order of `scored`. */
function scoresOf(head, leftOut) {
  return (leftOut ? head.onWords : head.row.slice(FIRST_SCORE)).slice(0, scored.length);
}

function labelOf(head, leftOut) {
  return head.row[leftOut ? column.content_label : column.label];
}

function carries(kind, head) {
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

/** A head's weights, [query × key] in one array; null if the page does not carry them. */
function weightsOf(head) {
  if (!carries("weights", head)) return Promise.resolve(null);
  return once(`weights-${head.name}`, async () =>
    Float32Array.from(joined(await bytesOf(`weights-${head.name}`)), (steps) => steps / facts.weightSteps),
  );
}

/** A head's queries and keys, each [token × neuron] in one array; null if the page does not carry them. */
function neuronsOf(head) {
  if (!carries("neurons", head)) return Promise.resolve(null);
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

function thumbnails() {
  return once("thumbnails", () => bytesOf("thumbnail-bytes"));
}
