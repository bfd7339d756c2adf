// The question of a link from word to word, which a click on a cell asks: all heads are ranked by it.

Object.assign(usual, { link: "" }); // 3-5: from token 3 to token 5
Object.assign(allowed, {
  link: (text) =>
    text === "" ||
    (/^\d+-\d+$/.test(text) &&
      text.split("-").every((place) => Number(place) < LENGTH) &&
      !facts.special[Number(text.split("-")[0])]),
});

let ranked = ""; // what the heads are ranked by

/** The link that is asked about, as { query, key }; null if there is none. */
function asked() {
  if (!state.link || !allowed.link(state.link)) return null;
  const [query, key] = state.link.split("-").map(Number);
  return { query, key };
}

/** Ask about a link, or about none if it is asked about already; special tokens link nothing. */
function ask(query, key) {
  const link = `${query}-${key}`;
  if (!facts.special[query]) return change({ link: state.link === link ? "" : link });
}

/** A dot in the cell of a matrix that is asked about. */
function paintLink(figure) {
  const link = asked();
  const { queries, keys, cell } = figure.shows;
  const at = link ? [keys.indexOf(link.key), queries.indexOf(link.query)] : [-1];
  const radius = Math.max(2, cell / 4);
  const dot = at.map((place) => `${(place + 0.5) * cell + MARGIN - radius}px`).join(" ");
  const disc = `radial-gradient(circle at center, var(--text) 0 ${radius - 1}px, var(--ground) ${radius - 1}px ${radius}px, transparent ${radius}px)`;
  setVariable(figure, "--link", at.includes(-1) ? "none" : `${disc} ${dot} / ${2 * radius}px ${2 * radius}px no-repeat`);
}

/** All heads by their numbers for a link, and the average head's; without those that the page does not hold. */
async function ranking({ query, key }) {
  const numbers = await Promise.all(heads.map(shownOf));
  const known = heads.flatMap((head, place) => (numbers[place] ? [{ head, share: numbers[place][query * LENGTH + key] }] : []));
  const average = known.reduce((total, { share }) => total + share, 0) / known.length;
  known.sort((a, b) => b.share - a.share || a.head.index - b.head.index);
  return { known, average };
}

async function paintQuestion() {
  const link = asked();
  find("question").hidden = !link;
  const now = JSON.stringify([state.link, reading(), inputs]);
  if (!link || ranked === now) return chosenInRanking();
  const { known, average } = await ranking(link);
  if (now !== JSON.stringify([state.link, reading(), inputs])) return; // another question was asked meanwhile
  ranked = now;
  const part = known.length < heads.length ? `, of the ${known.length} heads whose weights are on this page` : "";
  const ends = [...called(link.query), " → ", ...called(link.key)];
  find("ranked-by").replaceChildren(...ends, `: ranked by ${facts.titles[reading()]}: average head ${average.toFixed(DIGITS)}${part}`);
  const lines = known.map(({ head, share }) => {
    const bar = make("i", { class: "bar" });
    bar.style.setProperty("--share", share);
    bar.style.setProperty("--color", kindOf(head).color);
    const about = { type: "button", value: head.name, title: `${head.name} ${toldOf(head)}` };
    return make("li", {}, make("button", about, make("b", {}, head.name), ` ${markOf(head)} `, share.toFixed(DIGITS)), bar);
  });
  find("ranked").replaceChildren(...lines);
  find("ranked").scrollTop = 0;
  chosenInRanking();
}

function chosenInRanking() {
  const buttons = [...find("ranked").querySelectorAll("button")];
  for (const button of buttons) setAttribute(button, "aria-pressed", String(state.heads.split(",").includes(button.value)));
  rove(buttons, buttons.find((button) => button.value === state.heads.split(",")[0]));
}

find("clear-link").addEventListener("click", () => change({ link: "" }));
find("ranked").addEventListener("click", (event) => {
  const head = event.target.closest("button");
  if (head) choose(head.value, event.shiftKey || state.several);
});
steer(find("ranked"), () => [...find("ranked").querySelectorAll("button")]);
headView.companions.push(paintQuestion);
