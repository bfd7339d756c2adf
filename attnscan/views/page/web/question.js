// Draw the question: links from word to word, by which all heads are ranked, and which are saved as a pattern.

Object.assign(usual, { links: "" }); // 3-5,4-6: from token 3 to 5 and from 4 to 6
Object.assign(allowed, {
  links: (text) =>
    text === "" ||
    (/^\d+-\d+(,\d+-\d+)*$/.test(text) &&
      text.split(",").every((link) => link.split("-").every((place) => Number(place) < LENGTH)) &&
      text.split(",").every((link) => !facts.special[Number(link.split("-")[0])])),
});

const question = { marking: false, q: null, k: null, from: null, brushed: null, ranked: "" };

/** The links that are drawn, as { query, key }; those that another input has no tokens for are left out. */
const linked = () =>
  state.links
    .split(",")
    .map((link) => link.split("-").map(Number))
    .map(([query, key]) => ({ query, key }))
    .filter(({ query, key }) => query < LENGTH && key < LENGTH && !facts.special[query]);

const linkName = (query, key) => `${query}-${key}`;

/** Draw links, or with `flip` take away one that is drawn already. */
function drawLinks(names, flip) {
  const links = new Set(state.links.split(",").filter(Boolean));
  const wanted = names.filter((name) => !facts.special[Number(name.split("-")[0])]);
  for (const name of wanted) if (!(flip && links.delete(name))) links.add(name);
  return change({ links: [...links].join(",") });
}

/** Mark a query or a key; once there is both, they are a link. */
async function mark(side, index) {
  if (side === "q" && facts.special[index]) return;
  question[side] = question[side] === index ? null : index;
  if (question.q !== null && question.k !== null) {
    const name = linkName(question.q, question.k);
    question.q = question.k = null;
    await drawLinks([name], true);
  }
  paintMarks();
}

/** Show which tokens are marked, which are linked, and how far a link is drawn. */
function paintMarks() {
  const links = linked();
  for (const [id, side, place] of [["queries", "q", "query"], ["keys", "k", "key"]]) {
    const ends = new Set(links.map((link) => link[place]));
    for (const token of tokensOf(find(id))) {
      token.classList.toggle("marked", question[side] === Number(token.value));
      token.classList.toggle("linked", ends.has(Number(token.value)));
    }
  }
  const [pending] = ["q", "k"].filter((side) => question[side] !== null);
  if (pending) {
    const next = { q: "a key, on the right or below, that it is linked to", k: "the query that it is linked from" }[pending];
    headView.say([...named(question[pending]), ` is marked. Now mark ${next}.`]);
  }
}

/** Dots in the cells of a matrix that are linked. */
function paintLinks(figure) {
  const { queries, keys, cell } = figure.shows;
  const dots = linked().map(({ query, key }) => [keys.indexOf(key), queries.indexOf(query)]).filter((at) => !at.includes(-1));
  const radius = Math.max(2, cell / 4);
  const dot = (at) => at.map((place) => `${(place + 0.5) * cell + GHOST_MARGIN - radius}px`).join(" ");
  const disc = `radial-gradient(circle at center, var(--text) 0 ${radius - 1}px, var(--ground) ${radius - 1}px ${radius}px, transparent ${radius}px)`;
  setVariable(figure, "--links", dots.map((at) => `${disc} ${dot(at)} / ${2 * radius}px ${2 * radius}px no-repeat`).join(", ") || "none");
}

/** All heads by the mean of their numbers for the links, and the average head's; those that the page does not hold last. */
async function ranking() {
  const links = linked();
  const numbers = await Promise.all(heads.map(shownOf));
  const shares = heads.map((head, place) => {
    const sum = links.reduce((total, { query, key }) => total + (numbers[place]?.[query * LENGTH + key] ?? NaN), 0);
    return { head, share: sum / links.length };
  });
  const known = shares.filter(({ share }) => !Number.isNaN(share));
  const average = known.reduce((total, { share }) => total + share, 0) / known.length;
  known.sort((a, b) => b.share - a.share || a.head.index - b.head.index);
  return { known, average };
}

async function paintQuestion() {
  const box = find("question");
  box.hidden = !linked().length;
  find("pattern-by").closest("label").hidden = SOURCE > 0; // there is no distance between two texts
  setAttribute(find("marking"), "aria-pressed", String(question.marking));
  find("matrices").classList.toggle("marking", question.marking);
  paintMarks();
  const now = JSON.stringify([state.links, reading(), inputs]);
  if (box.hidden || question.ranked === now) return chosenInRanking();
  const { known, average } = await ranking();
  if (now !== JSON.stringify([state.links, reading(), inputs])) return; // another question was drawn meanwhile
  question.ranked = now;
  const chips = linked().map(({ query, key }) => {
    const about = { type: "button", value: linkName(query, key), title: "Take this link away" };
    return make("button", about, ...called(query), " → ", ...called(key), " ×");
  });
  find("asked-links").replaceChildren(...chips);
  const part = known.length < heads.length ? `, of the ${known.length} heads whose weights are on this page` : "";
  const mean = chips.length > 1 ? `, mean of ${chips.length} links` : "";
  setText(find("ranked-by"), `Ranked by ${facts.titles[reading()]}${mean}: average head ${average.toFixed(DIGITS)}${part}`);
  const ranked = known.map(({ head, share }) => {
    const bar = make("i", { class: "bar" });
    bar.style.setProperty("--share", share);
    bar.style.setProperty("--color", kindOf(head).color);
    const about = { type: "button", value: head.name, title: `${head.name} ${toldOf(head)}` };
    return make("li", {}, make("button", about, make("b", {}, head.name), ` ${markOf(head)} `, share.toFixed(DIGITS)), bar);
  });
  find("ranked").replaceChildren(...ranked);
  find("ranked").scrollTop = 0;
  chosenInRanking();
}

function chosenInRanking() {
  const buttons = [...find("ranked").querySelectorAll("button")];
  for (const button of buttons) setAttribute(button, "aria-pressed", String(state.heads.split(",").includes(button.value)));
  rove(buttons, buttons.find((button) => button.value === state.heads.split(",")[0]));
}

/** A Python string: JSON's escapes are Python's. */
const python = (text) => JSON.stringify(text);

/** The file that `--pattern FILE.py:drawn` takes: links by their words' texts, or by distance and sentence. */
function patternFile(by) {
  const [title, body] = by === "words" ? byWords() : byDistance();
  return [
    `# Drawn on a page of attnscan. Rank heads by it: attnscan heads --pattern drawn.py:drawn${facts.letter ? ` --attention ${facts.attention}` : ""} [--pairs FILE]`,
    "import torch",
    ...(by === "words" ? ["", "LINKS = [", ...body, "]", "# source, target, and whether the target is the source itself"] : []),
    "",
    "",
    "def drawn(batch):",
    `    ${python(title)}`,
    "    target = torch.zeros_like(batch.same_sentence)",
    ...(by === "words" ? WORDS_BODY : body),
    "    return target",
    "",
  ].join("\n");
}

const WORDS_BODY = [
  "    for cells, encoded in zip(target, batch.inputs, strict=True):",
  "        texts = [unit.strip().casefold() for unit in encoded.units]",
  "        for source, key, itself in LINKS:",
  "            queries = [place for place, text in enumerate(texts) if text == source.casefold()]",
  "            keys = [place for place, text in enumerate(texts) if text == key.casefold()]",
  "            for query in queries:",
  "                if encoded.unit_sentence[query] >= 0:  # a word, no special token",
  "                    for place in keys:",
  "                        cells[query, place] |= (place == query) == itself",
];

const MOST_TOLD = 4;
const listOf = (texts) => texts.slice(0, MOST_TOLD).join(", ") + (texts.length > MOST_TOLD ? ` and ${texts.length - MOST_TOLD} more` : "");

function byWords() {
  const links = new Map(linked().map(({ query, key }) => {
    const [from, to] = [facts.tokens[query], facts.tokens[key]];
    const itself = query === key ? "True" : "False";
    return [`    (${python(from)}, ${python(to)}, ${itself}),`, `'${from}' to ${itself === "True" ? "itself" : `'${to}'`}`];
  }));
  return [`weight from ${listOf([...links.values()])}, wherever these words stand`, [...links.keys()]];
}

function byDistance() {
  const specials = [...facts.tokens.keys()].filter((index) => facts.special[index]);
  const links = new Map(linked().map(({ query, key }) => {
    if (facts.special[key]) {
      const number = specials.indexOf(key) + 1;
      return [`    target |= batch.word[:, :, None] & (batch.special & (batch.special.cumsum(-1) == ${number}))[:, None, :]`, `special token number ${number}`];
    }
    const [from, to] = [query, key].map((index) => facts.segments[index]);
    if (from === to) return [`    target |= batch.same_sentence & (batch.offset == ${key - query})`, `the word at ${key > query ? "+" : ""}${key - query} in its sentence`];
    const words = "batch.word[:, :, None] & batch.word[:, None, :]";
    return [
      `    target |= ${words} & (batch.sentence[:, :, None] == ${from}) & (batch.sentence[:, None, :] == ${to})`,
      `all words of sentence ${"AB"[to]}, from those of ${"AB"[from]}`,
    ];
  }));
  return [`weight on ${listOf([...links.values()])}`, [...links.keys()]];
}

/** Where a pointer is in a matrix, as { query, key }; null if it is in none. */
function cellAt(event) {
  const figure = event.target.closest?.(".matrix");
  if (!figure?.shows || !event.target.matches("canvas")) return null;
  const { queries, keys, cell } = figure.shows;
  const [row, column] = [event.offsetY, event.offsetX].map((at) => Math.floor(at / cell));
  return row in queries && column in keys ? linkName(queries[row], keys[column]) : null;
}

const tokenAt = (event, list) => event.target.closest?.(`#${list} button`);

function buildQuestion() {
  find("marking").addEventListener("click", () => {
    question.marking = !question.marking;
    question.q = question.k = null;
    show();
  });
  for (const [list, side] of [["queries", "q"], ["keys", "k"]]) {
    find(list).addEventListener("click", (event) => {
      const token = question.marking && event.target.closest("button");
      if (!token) return;
      event.stopImmediatePropagation(); // it is marked, not held
      mark(side, Number(token.value));
    }, true);
    find(list).addEventListener("keydown", (event) => {
      const token = event.key === "m" && !event.ctrlKey && !event.metaKey && event.target.closest("button");
      if (token) mark(side, Number(token.value));
    });
  }
  find("stage").addEventListener("pointerdown", (event) => {
    if (event.pointerType === "touch" || event.button !== 0) return;
    const [query, key] = [tokenAt(event, "queries"), tokenAt(event, "keys")];
    question.from = query ?? key;
  });
  document.addEventListener("pointermove", (event) => question.from && paintRubber(event));
  document.addEventListener("pointerup", (event) => {
    const [from, onto] = [question.from, tokenAt(event, "queries") ?? tokenAt(event, "keys")];
    question.from = null;
    paintRubber(null);
    const lists = [from, onto].map((token) => token?.closest(".tokens").id);
    if (!from || !onto || lists[0] === lists[1]) return;
    const [query, key] = lists[0] === "queries" ? [from, onto] : [onto, from];
    drawLinks([linkName(Number(query.value), Number(key.value))], false);
  });
  const matrices = find("matrices");
  matrices.addEventListener("pointerdown", (event) => {
    const name = event.button === 0 && (question.marking || event.pointerType !== "touch") && cellAt(event);
    if (name) question.brushed = new Set([name]);
  });
  matrices.addEventListener("pointermove", (event) => {
    const name = question.brushed && cellAt(event);
    if (name) question.brushed.add(name);
  });
  document.addEventListener("pointerup", () => {
    const names = [...(question.brushed ?? [])];
    question.brushed = null;
    if (names.length > 1) drawLinks(names, false);
    else if (names.length && question.marking) drawLinks(names, true);
  });
  document.addEventListener("pointercancel", () => {
    question.from = question.brushed = null;
    paintRubber(null);
  });
  matrices.addEventListener("keydown", async (event) => {
    const figure = event.target.closest(".matrix");
    if (event.key !== "m" || !figure?.shows) return;
    const [place, { queries, keys, at }] = [[...matrices.children].indexOf(figure), figure.shows];
    await drawLinks([linkName(queries[at.row], keys[at.column])], true);
    const anew = matrices.children[place]; // it was painted anew
    Object.assign(anew.shows.at, at);
    anew.querySelector("canvas").focus();
  });
  find("asked-links").addEventListener("click", async (event) => {
    const link = event.target.closest("button");
    if (!link) return;
    await drawLinks([link.value], true);
    (state.links ? find("asked-links").querySelector("button") : find("marking")).focus();
  });
  find("clear-links").addEventListener("click", () => change({ links: "" }).then(() => find("marking").focus()));
  find("ranked").addEventListener("click", (event) => {
    const head = event.target.closest("button");
    if (head) choose(head.value, event.shiftKey || state.several);
  });
  steer(find("ranked"), () => [...find("ranked").querySelectorAll("button")], () => 1);
  find("save-pattern").addEventListener("click", () => saveAs("drawn.py", patternFile(SOURCE ? "words" : find("pattern-by").value), "text/x-python"));
  headView.companions.push(paintQuestion);
}

/** A line from the token that a link is drawn from to the pointer. */
function paintRubber(event) {
  const rubber = find("rubber");
  rubber.hidden = !event;
  if (!event) return;
  const [stage, token] = [find("stage"), question.from].map((element) => element.getBoundingClientRect());
  const horizontal = find("stage").matches(".horizontal");
  const isQuery = question.from.closest("#queries");
  const [x, y] = horizontal
    ? [token.left + token.width / 2, isQuery ? token.bottom : token.top]
    : [isQuery ? token.right : token.left, token.top + token.height / 2];
  rubber.style.left = `${x - stage.left + find("stage").scrollLeft}px`;
  rubber.style.top = `${y - stage.top}px`;
  rubber.style.width = `${Math.hypot(event.clientX - x, event.clientY - y)}px`;
  rubber.style.transform = `rotate(${Math.atan2(event.clientY - y, event.clientX - x)}rad)`;
}

buildQuestion();
