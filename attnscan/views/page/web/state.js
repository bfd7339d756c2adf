// What is shown, kept in the page's address, so that a view can be linked, found again and gone back to.

/**
 * By name, each once its own file has put it here. `build` is called once, `renew` after it and whenever the heads are
 * others, `fill` whenever the input is another one.
 */
const views = {};

/** Called whenever what is shown has changed. */
const onShow = [];

/** Called before the address is read, with what it says: what it says of heads may be of others than those that are there. */
const beforeAddress = [];

const usualReading = () => ({ by: ofCarried(facts.usual) ? "carried" : "weight", special: amongWords(facts.usual) ? "out" : "in" });
const usual = {
  view: "model",
  ...usualReading(), // by: where heads look, or what they carry; special: special tokens as keys, or removed
  order: "place",
  shape: "squares", // what thumbnails are drawn as: squares or lines
  only: "", // the one pattern or habit whose heads stand out
  heads: facts.best,
  several: "", // yes: a click on a head adds it, or takes it away
  token: "", // q5 or k5: the query or key that is held
  pairs: "all",
  from: "0.02",
  layout: facts.rightToLeft ? "horizontal" : "vertical",
  keys: "place",
  strip: "product", // of the neuron view in a narrow window: product, k or q
  sort: "",
  theme: "",
};
const allowed = {
  view: (text) => Object.hasOwn(views, text),
  by: (text) => ["weight", "carried"].includes(text) && facts.readings.includes(text),
  special: (text) => ["in", "out"].includes(text) && (!OF_PAIRS || text === usualReading().special),
  order: (text) => text === "place" || scored.includes(text),
  shape: (text) => ["squares", "lines"].includes(text),
  only: (text) => text === "" || text in kindNamed,
  heads: (text) => text.split(",").every((name) => headNamed.has(name)),
  several: (text) => ["", "yes"].includes(text),
  token: (text) => text === "" || (/^[qk]\d+$/.test(text) && Number(text.slice(1)) < LENGTH),
  pairs: (text) => text === "all" || (/^[ab][ab]$/.test(text) && !SOURCE && segmentsOf(facts.segments) > 1),
  from: (text) => Number(text) >= 0 && Number(text) <= 1,
  layout: (text) => ["vertical", "horizontal"].includes(text),
  strip: (text) => ["product", "k", "q"].includes(text) && !(SOURCE && text === "q"), // a source asks nothing
  keys: (text) => ["place", "weight"].includes(text),
  sort: (text) => text === "" || (/^[+-]/.test(text) && shownColumns.includes(text.slice(1))),
  theme: (text) => ["", "light", "dark"].includes(text),
};

let state = { ...usual };

/** The name of the reading that the two switches choose. */
const reading = () => (state.special === "in" ? state.by : { weight: "words", carried: "carried-words" }[state.by]);

/** Take over what the address says, as far as it makes sense for this page. */
async function readAddress() {
  const given = Object.fromEntries(new URLSearchParams(location.hash.slice(1)));
  for (const prepare of beforeAddress) await prepare(given);
  const known = Object.keys(usual).filter((name) => name in given && allowed[name](given[name]));
  state = { ...usual, ...Object.fromEntries(known.map((name) => [name, given[name]])) };
}

function address(of = state) {
  const said = new URLSearchParams();
  for (const [name, value] of Object.entries(of)) if (value !== usual[name]) said.set(name, value);
  return `#${said.toString().replaceAll("%2C", ",")}`;
}

/** Change what is shown. Another view or head is a step that the browser can go back from. */
function change(changes) {
  const before = state;
  state = { ...state, ...changes };
  const step = ["view", "heads", "attention"].some((name) => before[name] !== state[name]);
  try {
    history[step ? "pushState" : "replaceState"](null, "", address());
  } catch {
    // a page inside another one has no address to keep it in
  }
  return show();
}

const chosenHeads = () => state.heads.split(",").map((name) => headNamed.get(name));

/** The token that is held, as { side: "q" or "k", index }; null if none is. */
function heldToken() {
  return state.token ? { side: state.token[0], index: Number(state.token.slice(1)) } : null;
}
