// Beside the head and neuron views: a small map to choose heads from, and what is known of the chosen one.

const OVERLAY = ["#3d8fd6", "#d55e00", "#009e73", "#cc79a7", "#e69f00", "#7b61c9", "#56b4e9", "#a6761d"];

/** The colour of a head's lines: its label's if it is alone, else one of its own. */
function lineColor(head, position, count) {
  return count > 1 ? OVERLAY[position % OVERLAY.length] : pattern[labelOf(head)].color;
}

function buildPicker() {
  const side = Math.max(7, Math.min(18, Math.floor(216 / HEADS) - 2));
  const picker = find("picker");
  picker.style.setProperty("--columns", HEADS);
  picker.style.setProperty("--side", `${side}px`);
  for (const head of heads) {
    picker.append(
      make("button", { type: "button", value: head.name, class: OF_PAIRS || holds("weights", head) ? "" : "absent" }),
    );
  }
  const buttons = [...picker.children];
  picker.addEventListener("click", (event) => {
    const button = event.target.closest("button");
    if (button) choose(button.value, event.shiftKey || event.ctrlKey || event.metaKey);
  });
  steer(
    picker,
    () => buttons,
    () => HEADS,
    (button, event) => choose(button.value, event.shiftKey),
  );
}

/** Show a head, or with `also` show it beside the others, or not any more. */
function choose(name, also) {
  const names = state.heads.split(",");
  if (!also || state.view === "neuron") return change({ heads: name });
  const rest = names.filter((each) => each !== name);
  return change({ heads: (rest.length < names.length && rest.length ? rest : [...rest, name]).join(",") });
}

function paintPicker() {
  const chosen = chosenHeads();
  const buttons = [...find("picker").children];
  for (const [index, button] of buttons.entries()) {
    const head = heads[index];
    const label = labelOf(head);
    const position = chosen.indexOf(head);
    setVariable(button, "--color", pattern[label].color);
    button.classList.toggle("mixed", label === "mixed");
    setAttribute(button, "aria-pressed", String(position >= 0));
    const sure = isUnsure(head) ? ", not sure" : "";
    setAttribute(button, "aria-label", `head ${head.name}, ${label}${sure}`);
    setAttribute(button, "title", `${head.name} ${label}${sure}`);
  }
  rove(buttons, buttons[chosen[0].index]);
  find("picker-hint").textContent = state.view === "head" ? "Shift and click for several." : "";
  find("facts").replaceChildren(...chosen.map((head, position) => factsOf(head, position, chosen.length)));
}

/** A head's labels and scores, as a small table with bars. */
function factsOf(head, position, count) {
  const label = labelOf(head);
  const shown = make("span", isUnsure(head) ? { title: facts.whyUnsure } : {}, label, isUnsure(head) ? "?" : "");
  const title = make("h3", {}, make("i", { class: "swatch" }), `Head ${head.name}`, shown);
  title.querySelector("i").style.setProperty("--color", lineColor(head, position, count));
  if (count > 1 || OF_PAIRS) return make("div", { class: "head-facts" }, title);
  const told = [sureness(head), scoresTable(head), alsoCalled(head), ...profileOf(head)];
  return make("div", { class: "head-facts" }, title, ...told);
}

/** What a head is called in the reading that is shown, and how sure that is, as a line. */
function sureness(head) {
  const words = amongWords(state.by) ? "content_label" : "label";
  const stays = hasColumn(`${words}_stays`) ? cellOf(head, `${words}_stays`) : null;
  const agree = cellOf(head, `${words}_agree`);
  const share = stays ? `label stays in ${percent(stays)} of resamplings of the ${facts.drawn}` : "";
  const few = stays === "" ? `rests on too few ${facts.drawn} to tell whether its label stays` : "";
  return make("p", { class: "hint" }, [facts.titles[state.by].replace("each head", "it"), share || few, agree && `${percent(agree)} of pairs agree`].filter(Boolean).join("; "));
}

const percent = (share) => `${Number((100 * Number(share)).toFixed(1))} %`;

/** A head's score for each pattern; its bar is how far that is above chance. */
function scoresTable(head) {
  const rows = scored.map((id) => {
    const score = scoreOf(head, id);
    const above = aboveChance(head, id);
    const bar = make("i", { class: "bar" });
    bar.style.setProperty("--color", pattern[id].color);
    bar.style.setProperty("--share", above);
    return make(
      "tr",
      { class: id === labelOf(head) ? "label" : "", title: score ? `${above.toFixed(2)} above chance` : null },
      make("th", { scope: "row" }, id),
      make("td", {}, score ? Number(score).toFixed(2) : "–"),
      make("td", {}, bar),
    );
  });
  return make("table", { class: "scores" }, make("caption", {}, "score; bar: above chance"), ...rows);
}

/** What a head is called in the other readings, its entropy, and how much it puts out, where that is known. */
function alsoCalled(head) {
  const others = facts.readings.filter((by) => by !== state.by);
  const called = others.map(
    (by) => `${facts.titles[by].replace("what each head ", "")} ${labelOf(head, by)}${isUnsure(head, by) ? "?" : ""}`,
  );
  const runner = `runner-up ${cellOf(head, "runner_up")}`;
  const entropy = cellOf(head, "entropy") ? `entropy ${Number(cellOf(head, "entropy")).toFixed(2)} nats` : "";
  const output = cellOf(head, "output");
  const equal = `an equal part is ${(1 / HEADS).toFixed(3)}`;
  const share = output ? `output ${Number(output).toFixed(3)} of its layer's, ${equal}` : "";
  return make("p", { class: "hint" }, [...called, runner, entropy, share].filter(Boolean).join("; "));
}

/** What a head's attention is made of, its largest part first, where that is known. */
function profileOf(head) {
  const profile = profiles[ofCarried(state.by) ? "carried" : "weight"]?.[head.index];
  if (!profile) return [];
  const [unexplained, parts] = profile;
  const rows = parts.map(([name, share]) => {
    const bar = make("i", { class: "bar plain" });
    bar.style.setProperty("--share", share);
    const cells = [make("td", {}, share.toFixed(2)), make("td", {}, bar)];
    return make("tr", {}, make("th", { scope: "row" }, name), ...cells);
  });
  const left = unexplained === null ? "carries nothing" : `${unexplained.toFixed(2)} unexplained`;
  return [make("h4", {}, "Profile", make("span", {}, left)), make("table", { class: "profile" }, ...rows)];
}
