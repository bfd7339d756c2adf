// Over many pairs: those in which a head follows its pattern most and least, each a way to the page of that one input.

const byHead = new Map();
const examiner = { client: crypto.randomUUID(), turn: 0 };

async function examplesOf(head) {
  if (!byHead.has(head.name)) byHead.set(head.name, request(`pairs/${head.name}`));
  return byHead.get(head.name);
}

async function paintExamples() {
  if (state.view !== "head") return;
  for (const [position, head] of chosenHeads().entries()) {
    const card = find("cards").children[position];
    const { status, body } = await examplesOf(head);
    if (status !== 200 || !body.pairs.length || !card?.isConnected || card.querySelector(".examples")) continue;
    const lists = [["most", body.pairs.slice(0, body.most)], ["least", body.pairs.slice(body.most)]];
    for (const [which, pairs] of lists) if (pairs.length) card.append(exampleList(head, body.pattern, which, pairs));
    markLinks(head, body.pairs, [...card.querySelectorAll(".examples a")]);
  }
}

function exampleList(head, id, which, pairs) {
  const items = pairs.map(({ a, b, where, score }) => {
    const way = new URLSearchParams({ view: "head", heads: head.name, a, b: b ?? "" });
    const link = make("a", { href: `./#${way}` }, [a, b].filter(Boolean).join(" | "));
    return make("li", {}, make("span", {}, decimals(score)), link, make("small", { title: where }, where.split("/").at(-1)));
  });
  const about = `Pairs in which it follows ${id} ${which}; marked: the words that it links most, from the outlined one`;
  return make("figure", { class: "examples" }, make("figcaption", {}, about), make("ol", {}, ...items));
}

/** Mark in each example's text the two words that the head links most, one example after the other. */
async function markLinks(head, pairs, links) {
  for (const [place, pair] of pairs.entries()) {
    if (!links[place].isConnected) return; // another head was chosen meanwhile
    const marked = await strongestLink(head, pair);
    if (marked) links[place].replaceChildren(...marked);
  }
}

/** A pair's texts with the two words marked, as nodes; null if there is no answer. */
async function strongestLink(head, { a, b }) {
  const question = { a, b, hidden: [], positions: "kept", segments: "kept", off: [], model: 0, beside: null };
  const { body: answer } = await request("answer", { ...question, client: examiner.client, turn: ++examiner.turn });
  const { body } = answer?.facts ? await request(`numbers/${answer.id}/${head.name}`) : {};
  if (!body?.texts) return null;
  const [weights, carried] = ["weights", "carried"].map((kind) => body.texts[`${kind}-${head.name}`]);
  const held = joined(await unpackedBytes(weights));
  const by = ofCarried(facts.usual) && carried ? "carried-words" : "words";
  const rows = by === "words" ? held : carriedRows(held, joined(await unpackedBytes(carried)), answer.facts);
  const numbers = numbersIn(rows, by, answer.facts);
  const { tokens, special, segments } = answer.facts;
  const most = numbers.reduce((best, number, at) => (!special[Math.floor(at / tokens.length)] && number > numbers[best] ? at : best), 0);
  const ends = { query: Math.floor(most / tokens.length), key: most % tokens.length };
  const nodes = [a, b].map((text, segment) => {
    const own = [...tokens.keys()].filter((place) => !special[place] && (b === null || segments[place] === segment));
    return text ? withMarks(text, own.map((place) => tokens[place]), own.map((place) => kindsOf(place, ends))) : [];
  });
  return [...nodes[0], ...(b ? [" | "] : []), ...nodes[1]];
}

const kindsOf = (place, ends) => Object.keys(ends).filter((kind) => ends[kind] === place).join(" ");

/** A text, as nodes, in which tokens with a kind are marked; each token is looked for after the one before. */
function withMarks(text, tokens, kinds) {
  const small = text.toLowerCase();
  const nodes = [];
  let [done, from] = [0, 0];
  for (const [place, token] of tokens.entries()) {
    const bare = token.replace(/^(##|▁|Ġ)/, "").toLowerCase();
    const start = bare ? small.indexOf(bare, from) : -1;
    if (start < 0) continue;
    from = start + bare.length;
    if (!kinds[place]) continue;
    nodes.push(text.slice(done, start), make("mark", { class: kinds[place] }, text.slice(start, from)));
    done = from;
  }
  return [...nodes, text.slice(done)];
}

const paintCards = headView.paint.bind(headView);
headView.paint = async () => {
  paintCards();
  await paintExamples();
};
