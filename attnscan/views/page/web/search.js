// From a head and a word that is held to the sentences of the server's pairs in which the head links alike.

Object.assign(usual, { search: "" }); // yes: what the pairs have is shown
Object.assign(allowed, { search: (text) => ["", "yes"].includes(text) && facts.live.corpus !== "" });

const AROUND = 12; // tokens that are shown before and after a link
let searched = ""; // what was asked last

/** What is asked of the server: the held word, and by the reading that its index has the word that it is linked to. */
async function searchOf(head, { side, index }) {
  const asked = { head: head.name, word: facts.tokens[index], side, client: asker.client };
  if (side === "k") return asked;
  const numbers = await numbersOf(head, facts.readings.includes("carried") ? "carried-words" : "words");
  const row = [...numbers.subarray(index * LENGTH, (index + 1) * LENGTH)];
  const key = row.indexOf(Math.max(...row));
  if (!row[key]) return asked;
  const apart = facts.segments[key] === facts.segments[index] ? { offset: key - index } : {};
  return { ...asked, linked: facts.tokens[key], ...apart };
}

async function paintSearch() {
  const [held, [head]] = [heldToken(), shownHeads()];
  setAttribute(find("search"), "aria-pressed", String(state.search === "yes"));
  find("matches").hidden = !state.search;
  if (!state.search) return (searched = "");
  if (!held || !head || facts.special[held.index]) {
    searched = "";
    setText(find("searched"), "Hold a word, by a click or Enter: the pairs are searched for sentences where this head links alike.");
    return find("found").replaceChildren();
  }
  const asked = await searchOf(head, held);
  const now = JSON.stringify(asked);
  if (now === searched) return;
  searched = now;
  for (let isDone = false; !isDone && searched === now; ) {
    const { status, body: said } = await request("search", asked);
    if (searched !== now) return; // something else was asked meanwhile
    if (status === 202) await new Promise((resolve) => setTimeout(resolve, AGAIN)); // an answer went first
    else if (status !== 200) {
      searched = "";
      return setText(find("searched"), said?.error ?? "the server does not answer");
    } else {
      paintMatches(asked, said);
      isDone = said.progress[0] >= said.progress[1];
    }
  }
}

function paintMatches(asked, { progress, stands, linked, before, after, sentences }) {
  const [done, total, all] = progress;
  const read = done < total ? `${done} of ${total} pairs read so far` : total < all ? `the first ${total} of ${all} pairs` : `${total} pairs`;
  const way = asked.side === "q" ? `“${asked.word}” is linked to “${asked.linked ?? "nothing"}”` : `words are linked to “${asked.word}”`;
  setText(find("searched"), `Where head ${asked.head} links alike (here ${way}), in ${read}: “${asked.word}” stands there ${stands} times.`);
  const counts = [
    [asked.side === "q" ? "linked to" : "linked from", linked],
    ["word before", before],
    ["word after", after],
  ].map(([name, words]) => {
    const rows = words.map(([word, count]) => make("tr", {}, make("th", { scope: "row" }, make("bdi", {}, word)), make("td", {}, String(count))));
    return make("table", {}, make("caption", {}, name), ...rows);
  });
  const lines = sentences.map(({ a, b, where, tokens, query, key, share }) => {
    const way = new URLSearchParams({ view: "head", heads: asked.head, a, b: b ?? "", token: `q${query}`, search: "yes" });
    const [from, to] = [Math.max(0, Math.min(query, key) - AROUND), Math.max(query, key) + AROUND + 1];
    const words = tokens.slice(from, to).flatMap((token, at) => {
      const kind = { [key]: "key", [query]: "query" }[from + at];
      return [kind ? make("mark", { class: kind === "query" && query === key ? "query key" : kind }, make("bdi", {}, token)) : make("bdi", {}, token), " "];
    });
    const link = make("a", { href: `./#${way}` }, from ? "… " : "", ...words, to < tokens.length ? "…" : "");
    return make("li", {}, make("span", {}, share.toFixed(2)), link, make("small", {}, where));
  });
  find("found").replaceChildren(make("div", { class: "counts" }, ...counts), make("ol", {}, ...lines));
}

if (facts.live.corpus) {
  find("search").addEventListener("click", () => change({ search: state.search ? "" : "yes" }));
  headView.companions.push(paintSearch);
}
