// Over many pairs: those in which a head follows its pattern most and least, each a way to the page of that one input.

const byHead = new Map();

async function examplesOf(head) {
  if (!byHead.has(head.name)) byHead.set(head.name, request(`pairs/${head.name}`));
  return byHead.get(head.name);
}

async function paintExamples() {
  if (state.view !== "head") return;
  for (const [position, head] of chosenHeads().entries()) {
    const card = find("cards").children[position];
    const { status, found } = await examplesOf(head);
    if (status !== 200 || !card?.isConnected || card.querySelector(".examples")) continue;
    const rows = found.pairs.map(({ a, b, where, score }) => {
      const asked = new URLSearchParams({ view: "head", heads: head.name, a, ...(b === null ? { b: "" } : { b }) });
      const link = make("a", { href: `./#${asked}` }, [a, b].filter(Boolean).join(" | "));
      return make("tr", {}, make("td", {}, link), make("td", {}, where), make("td", { class: "number" }, decimals(score)));
    });
    const header = make("tr", {}, ...["pair", "where", "score"].map((name) => make("th", { scope: "col" }, name)));
    const caption = make("caption", {}, found.pattern === "mixed" ? "Pairs" : `Pairs by ${found.pattern}, from most to least`);
    card.append(make("table", { class: "examples" }, caption, make("thead", {}, header), make("tbody", {}, ...rows)));
  }
}

const paintCards = headView.paint.bind(headView);
headView.paint = async () => {
  paintCards();
  await paintExamples();
};
