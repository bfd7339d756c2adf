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
    const { status, body } = await examplesOf(head);
    if (status !== 200 || !body.pairs.length || !card?.isConnected || card.querySelector(".examples")) continue;
    const items = body.pairs.map(({ a, b, where, score }) => {
      const way = new URLSearchParams({ view: "head", heads: head.name, a, b: b ?? "" });
      const link = make("a", { href: `./#${way}` }, [a, b].filter(Boolean).join(" | "));
      return make("li", {}, make("span", {}, decimals(score)), link, make("small", { title: where }, where.split("/").at(-1)));
    });
    const about = `Pairs by ${body.pattern}: most, then least`;
    card.append(make("figure", { class: "examples" }, make("figcaption", {}, about), make("ol", {}, ...items)));
  }
}

const paintCards = headView.paint.bind(headView);
headView.paint = async () => {
  paintCards();
  await paintExamples();
};
