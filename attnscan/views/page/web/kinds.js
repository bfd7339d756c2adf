// The kinds of attention of an encoder-decoder: which one is shown, with its own heads, patterns and tokens.

usual.attention = facts.attention;
allowed.attention = (text) => facts.kinds.some(({ attention }) => attention === text);

/** What the state says of the heads, patterns and tokens of one kind: it is come back to when the kind is. */
const OWN = ["heads", "several", "token", "link", "only", "order", "sort", "pairs"];
const remembered = {};
let taking = 0; // which kind was asked for last

/** What the page has of a kind: its facts, and what is said of every head. A live page asks for it. */
async function kindOfPage(name) {
  const place = facts.kinds.findIndex(({ attention }) => attention === name);
  const before = place ? `${name}:` : "";
  const [table, more] = await Promise.all(["table-bytes", "profile-bytes"].map((id) => factsOfInput(before, id)));
  return { table, more, next: facts.kinds[place], take: () => (prefix = before) };
}
let knownKind = kindOfPage;

/** Put a kind in the place of the one that is shown; whether it is there. */
async function takeKind(name, said) {
  if (name === facts.attention) return true;
  const mine = ++taking;
  const known = await knownKind(name, said);
  if (mine !== taking || !known) return false;
  remembered[facts.attention] = Object.fromEntries(OWN.map((own) => [own, state[own]]));
  known.take();
  takeInput(known.next, known.table, known.more);
  nameHeads();
  Object.assign(usual, usualReading(), { heads: facts.best });
  fillPicker();
  for (const renew of ["renew", "fill"]) for (const view of Object.values(views)) view[renew]?.();
  paintKind();
  return true;
}

/** What is said of a kind above and below the views. */
function paintKind() {
  setText(find("grid"), `${LAYERS} layers × ${HEADS} heads`);
  setText(find("size"), sizeOfInput());
  if (find("tab-neuron")) find("tab-neuron").hidden = facts.neuron.size === 0;
  const told = facts.patterns.flatMap(({ letter, id, counts, whyNone }) => [
    make("dt", {}, `${letter} ${id}`),
    make("dd", {}, `${counts}${whyNone ? ` (not measured: ${whyNone})` : ""}`),
  ]);
  find("about").querySelector("dl").replaceChildren(...told);
}

async function chooseKind(name) {
  if (!(await takeKind(name, { ...state, attention: name }))) return paintKinds(facts.attention);
  const own = { ...Object.fromEntries(OWN.map((key) => [key, usual[key]])), ...remembered[name] };
  const wanted = { ...state, ...own, attention: name };
  for (const key of [...OWN, "by", "special", "strip"]) if (!allowed[key](wanted[key])) wanted[key] = usual[key];
  if (state.view === "neuron" && facts.neuron.size === 0) wanted.view = "head";
  return change(wanted);
}

/** A head's letter tells its kind, in an address or where heads are named. */
const kindOfName = (name) => facts.kinds.find(({ letter }) => letter === name.replace(/[\d-].*/, ""))?.attention;

beforeAddress.push(async (given) => {
  const named = given.attention ?? kindOfName(given.heads ?? "") ?? usual.attention;
  await takeKind(allowed.attention(named) ? named : usual.attention, { ...usual, ...given });
  given.attention = facts.attention;
});

const paintKinds = segmented("attention", chooseKind);
onShow.push(() => paintKinds(facts.attention));
