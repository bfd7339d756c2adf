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
      make("button", { type: "button", value: head.name, class: holds("weights", head) ? "" : "absent" }),
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
    setAttribute(button, "aria-label", `head ${head.name}, ${label}`);
    setAttribute(button, "title", `${head.name} ${label}`);
  }
  rove(buttons, buttons[chosen[0].index]);
  find("picker-hint").textContent = state.view === "head" ? "Shift and click for several." : "";
  find("facts").replaceChildren(...chosen.map((head, position) => factsOf(head, position, chosen.length)));
}

/** A head's labels and scores, as a small table with bars. */
function factsOf(head, position, count) {
  const label = labelOf(head);
  const title = make("h3", {}, make("i", { class: "swatch" }), `Head ${head.name}`, make("span", {}, label));
  title.querySelector("i").style.setProperty("--color", lineColor(head, position, count));
  if (count > 1) return make("div", { class: "head-facts" }, title);
  const rows = scored.map((id, index) => {
    const score = scoresOf(head)[index];
    const bar = make("i", { class: "bar" });
    bar.style.setProperty("--color", pattern[id].color);
    bar.style.setProperty("--share", score || 0);
    return make(
      "tr",
      { class: id === label ? "label" : "" },
      make("th", { scope: "row" }, id),
      make("td", {}, score ? Number(score).toFixed(2) : "–"),
      make("td", {}, bar),
    );
  });
  const row = rowOf(head);
  const also = make(
    "p",
    { class: "hint" },
    `runner-up ${row[column.runner_up]}, on words ${row[column.content_label]}, `,
    `entropy ${Number(row[column.entropy]).toFixed(2)} nats`,
  );
  const facts = [make("table", {}, ...rows), also, ...carriedFacts(head), ...profileOf(head)];
  return make("div", { class: "head-facts" }, title, ...facts);
}

/** What a head's attention is made of, its largest part first, where that is known. */
function profileOf(head) {
  const profile = profiles[state.by === "carried" ? "carried" : "weight"]?.[head.index];
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

/** What a head carries and how much it puts out, where that is known. */
function carriedFacts(head) {
  const { carried, weight } = head.rows;
  if (!carried) return [];
  const other = state.by === "carried" ? `by weight ${weight[column.label]}` : `carries ${carried[column.label]}`;
  const output = weight[column.output];
  const equal = `an equal part is ${(1 / HEADS).toFixed(3)}`;
  const share = output ? `; output ${Number(output).toFixed(3)} of its layer's, ${equal}` : "";
  return [make("p", { class: "hint" }, other + share)];
}
