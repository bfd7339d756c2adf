// Beside the head and neuron views: a small map to choose heads from, and what is known of the chosen one.

const slots = new Map(); // which colour each of several heads has, for as long as it is chosen

/** What a colour means: with one head its label, with several the head. As { color, ink }, ink for text on it. */
function colorsOf(head) {
  const chosen = chosenHeads();
  if (chosen.length === 1) return kindOf(head);
  for (const name of slots.keys()) if (!chosen.includes(headNamed.get(name))) slots.delete(name);
  for (const { name } of chosen) {
    if (slots.has(name)) continue;
    const taken = new Set(slots.values());
    const free = facts.headColors.findIndex((_, slot) => !taken.has(slot));
    slots.set(name, free < 0 ? slots.size % facts.headColors.length : free);
  }
  const [color, ink] = facts.headColors[slots.get(head.name)];
  return { color, ink };
}

/** Whether a head is of the layer of a name, `layer:2` or `layer:c2`. */
const isLayer = ({ layerNumber }, word) =>
  word === `layer:${layerNumber}` || word === `layer:${facts.letter}${layerNumber}`;

/** The heads that a text names, by names and whole layers, each once; and what it has beside these. */
function headsIn(text) {
  const words = text.split(/[\s,]+/).filter(Boolean);
  const calledBy = (word) => heads.filter((head) => word === head.name || isLayer(head, word));
  return { known: [...new Set(words.flatMap(calledBy))], unknown: words.filter((word) => !calledBy(word).length) };
}

const noSuchHead = (unknown) =>
  `there is no head ${unknown.join(", ")}: ${facts.letter ? `${facts.attention} attention` : "this model"} has ${LAYERS} layers of ${HEADS} heads, counted from ${heads[0].name}`;

/** A button for each layer and head. */
function fillPicker() {
  const picker = find("picker");
  picker.replaceChildren();
  picker.style.setProperty("--columns", HEADS);
  for (const [index, head] of heads.entries()) {
    if (index % HEADS === 0) {
      const about = `All heads of layer ${head.layerNumber}`;
      const layer = { type: "button", class: "layer", value: head.layer, title: about, "aria-label": about };
      picker.append(make("button", layer, String(head.layerNumber)));
    }
    const absent = OF_PAIRS || holds("weights", head) ? "" : "absent";
    picker.append(make("button", { type: "button", value: head.name, class: absent }));
  }
}

function buildPicker() {
  const picker = find("picker");
  const act = (button, also) => {
    if (!button.matches(".layer")) return choose(button.value, also || state.several);
    const names = heads.filter((head) => head.layer === Number(button.value)).map((head) => head.name);
    return change({ heads: names.join(","), several: "yes" });
  };
  picker.addEventListener("click", (event) => {
    const button = event.target.closest("button");
    if (button) act(button, event.shiftKey || event.ctrlKey || event.metaKey);
  });
  const reach = (button, event) => {
    if (!button.matches(".layer") && (!state.several || event.shiftKey)) act(button, event.shiftKey);
  };
  steer(picker, () => [...picker.children], reach, () => HEADS + 1);
  find("heads").addEventListener("change", (event) => {
    const { known, unknown } = headsIn(event.target.value);
    if (unknown.length) return notice("unknown-heads", noSuchHead(unknown));
    const names = known.map((head) => head.name).join(",") || state.heads;
    return change({ heads: names, several: names.includes(",") ? "yes" : "" });
  });
  find("fold").addEventListener("click", () =>
    find("fold").setAttribute("aria-expanded", String(find("fold").ariaExpanded !== "true")),
  );
  find("several").addEventListener("click", () =>
    change(state.several ? { several: "", heads: chosenHeads()[0].name } : { several: "yes" }),
  );
}

/** Whether the sentences that are chosen have a token as query, side `q`, or as key, side `k`. */
function isAsked(index, side) {
  if (SOURCE) return index >= SOURCE === (side === "q"); // the target's tokens look at the source's
  const { segments } = facts;
  if (segments[0] === segments.at(-1)) return true; // one sentence
  return state.pairs === "all" || segments[index] === "ab".indexOf(state.pairs["qk".indexOf(side)]);
}

function paintPairs() {
  find("pairs-field").hidden = state.view === "table" || SOURCE > 0 || segmentsOf(facts.segments) < 2;
  find("pairs").value = state.pairs;
}

/** Show a head, or with `also` show it beside the others, or not any more. */
function choose(name, also) {
  const names = state.heads.split(",");
  if (!also || state.view === "neuron") return change({ heads: name, several: "" });
  const rest = names.filter((other) => other !== name);
  const next = rest.length < names.length && rest.length ? rest : [...rest, name];
  return change({ heads: next.join(","), several: "yes" });
}

/** Open a head. From the keyboard, the focus goes on to its first token or, over pairs, to its place among the heads. */
async function openHead(name, event) {
  await change({ view: "head", heads: name });
  if (event.detail) return; // a pointer has clicked
  const token = document.querySelector("#queries [tabindex='0']");
  (token?.checkVisibility() ? token : document.querySelector(`#picker [value="${name}"]`)).focus();
}

function paintPicker() {
  const chosen = chosenHeads();
  const several = chosen.length > 1 && state.view !== "neuron";
  const picker = find("picker");
  picker.classList.toggle("several", several);
  const buttons = [...picker.querySelectorAll("button:not(.layer)")];
  for (const [index, button] of buttons.entries()) {
    const head = heads[index];
    const { id, words, ...own } = kindOf(head);
    const isChosen = chosen.includes(head);
    const { color, ink } = several && isChosen ? colorsOf(head) : own;
    setText(button, markOf(head));
    setVariable(button, "--color", color);
    setVariable(button, "--ink", ink);
    button.classList.toggle("none", id === "none");
    setAttribute(button, "aria-pressed", String(isChosen));
    const sure = isUnsure(head) ? ", not sure" : "";
    setAttribute(button, "aria-label", `${markOf(head)} ${head.name}, ${words}${sure}`);
    setAttribute(button, "title", `${head.name} ${words}${sure}`);
  }
  rove([...picker.children], picker.contains(document.activeElement) ? document.activeElement : buttons[chosen[0].index]);
  find("heads").value = state.heads.replaceAll(",", ", ");
  notice("unknown-heads", "");
  find("several").hidden = state.view === "neuron";
  setAttribute(find("several"), "aria-pressed", String(Boolean(state.several)));
  find("picker-hint").textContent = several
    ? "A colour is a head."
    : state.several && state.view === "head" ? "Choose more heads, or a layer by its number." : "";
  find("facts").replaceChildren(...chosen.map((head) => factsOf(head, chosen.length)));
}

/** A head's labels and scores, as a small table with bars. */
function factsOf(head, count) {
  const unsure = isUnsure(head);
  const shown = make("span", unsure ? { title: facts.whyUnsure } : {}, kindOf(head).words, unsure ? "?" : "");
  const title = make("h2", {}, make("i", { class: "swatch" }), `Head ${head.name} `, shown);
  title.querySelector("i").style.setProperty("--color", colorsOf(head).color);
  if (count > 1 || OF_PAIRS) return make("div", { class: "head-facts" }, title);
  const told = [...statementOf(head), sureness(head), scoresTable(head), alsoCalled(head)];
  return make("div", { class: "head-facts" }, title, ...told, ...linksOf(head), ...profileOf(head), ...moreOf(head));
}

/** Which command says the rest of a head's card, over pairs; nothing where there is no model to run. */
function moreOf(head) {
  if (!facts.card) return [];
  const told = `${OF_PAIRS ? "The" : "Over many pairs, the"} words that it links, in which sentences, and why`;
  return [make("p", { class: "hint more" }, `${told}: `, make("code", {}, facts.card.replace("HEAD", head.name)))];
}

const MOST_LINKS = 5;

/** From which words to which keys a head's numbers are largest, by the reading and the sentences that are chosen. */
function linksOf(head) {
  if (!holds(ofCarried(reading()) ? "carried" : "weights", head)) return [];
  const table = make("table", { class: "links" }, make("caption", {}, "links most, from → to"));
  const rowOfLink = ({ query, key, value }) => {
    const bar = make("i", { class: "bar plain" });
    bar.style.setProperty("--share", value);
    const name = make("th", { scope: "row" }, ...called(query), " → ", ...called(key));
    return make("tr", {}, name, make("td", {}, value.toFixed(2)), make("td", {}, bar));
  };
  shownOf(head).then((numbers) => table.append(...strongestLinks(numbers).map(rowOfLink)), () => table.remove());
  return [table];
}

function strongestLinks(numbers) {
  const strongest = [];
  for (let query = 0; query < LENGTH; query++) {
    if (facts.special[query] || !isAsked(query, "q")) continue;
    for (let key = 0; key < LENGTH; key++) {
      const value = numbers[query * LENGTH + key];
      if (!isAsked(key, "k") || value <= (strongest[MOST_LINKS - 1]?.value ?? 0)) continue;
      strongest.push({ query, key, value });
      strongest.sort((a, b) => b.value - a.value).splice(MOST_LINKS);
    }
  }
  return strongest;
}

/** What a head does with its numbers, as a line; nothing where there are none. */
const statementOf = (head) => (toldOf(head) === kindOf(head).words ? [] : [make("p", { class: "does" }, toldOf(head))]);

/** What a head is called in the reading that is shown, and how sure that is, as a line. */
function sureness(head) {
  const [label, stays] = [labelOf(head), cellOf(head, "label_stays")];
  const share = stays ? `label ${label}: the same in ${percent(stays)} of bootstrap resamples of the ${facts.drawn}` : "";
  const resting = rests(head) ? "rests: more than half of its attention is on special tokens" : "";
  return make("p", { class: "hint" }, [facts.titles[reading()].replace("each head", "it"), resting, share].filter(Boolean).join("; "));
}

const percent = (share) => `${Number((100 * Number(share)).toFixed(1))} %`;

/** A head's score for each pattern, and what even attention would have; its bar is how far it is above that. */
function scoresTable(head) {
  const rows = scored.map((id) => {
    const score = scoreOf(head, id);
    const above = aboveChance(head, id);
    const bar = make("i", { class: "bar" });
    bar.style.setProperty("--color", pattern[id].color);
    bar.style.setProperty("--share", above);
    return make(
      "tr",
      { class: id === kindOf(head).id ? "label" : "", title: score ? `${above.toFixed(2)} above chance` : null },
      make("th", { scope: "row" }, id),
      make("td", {}, score ? Number(score).toFixed(2) : "–"),
      make("td", { class: "chance" }, score ? chanceOf(head, id).toFixed(2) : ""),
      make("td", {}, bar),
    );
  });
  return make("table", { class: "scores" }, make("caption", {}, "score, chance; bar: above chance"), ...rows);
}

/** What a head does in the other readings, its entropy, and how much it puts out, where that is known. */
function alsoCalled(head) {
  const others = facts.readings.filter((by) => by !== reading());
  const called = others.map(
    (by) => `${facts.titles[by].replace("what each head does, ", "")}: ${kindOf(head, by).words}${isUnsure(head, by) ? "?" : ""}`,
  );
  const entropy = cellOf(head, "entropy") ? `entropy ${Number(cellOf(head, "entropy")).toFixed(2)} nats` : "";
  const output = cellOf(head, "output");
  const share = output ? `writes ${(Number(output) * HEADS).toFixed(1)} times its share of the layer` : "";
  return make("p", { class: "hint" }, [...called, entropy, share].filter(Boolean).join("; "));
}

/** Where a head's attention goes, largest share first. */
function profileOf(head) {
  const profile = profiles[ofCarried(reading()) ? "carried" : "weight"]?.[head.index];
  if (!profile) return [];
  const rows = profile.map(([name, share]) => {
    const bar = make("i", { class: "bar plain" });
    bar.style.setProperty("--share", share);
    const cells = [make("td", {}, share.toFixed(2)), make("td", {}, bar)];
    return make("tr", {}, make("th", { scope: "row" }, name), ...cells);
  });
  return [make("h3", {}, "Where attention goes"), make("table", { class: "profile" }, ...rows)];
}
