// The head view: which token looks at which, in one head or several.

const headView = {
  hovered: null, // { side, index } while the pointer is on a token
  companions: [], // called when it is painted

  build() {
    for (const [id, side] of [
      ["queries", "q"],
      ["keys", "k"],
    ]) {
      const list = find(id);
      list.addEventListener("click", (event) => this.hold(event, side));
      list.addEventListener("pointerover", (event) => event.pointerType !== "touch" && this.hover(event, side));
      list.addEventListener("pointerleave", () => this.hover(null));
      list.addEventListener("focusin", (event) => event.target.matches(":focus-visible") && this.hover(event, side));
      list.addEventListener("focusout", () => this.hover(null));
      steer(list, () => visible(list));
    }
    find("threshold").addEventListener("input", (event) => change({ from: event.target.value }));
    this.paintLayout = segmented("layout", (layout) => change({ layout }));
    document.addEventListener(
      "keydown",
      (event) => event.key === "Escape" && state.view === "head" && change({ token: "" }),
    );
    const canvas = find("lines");
    canvas.addEventListener("pointermove", (event) => this.point(event));
    canvas.addEventListener("pointerleave", () => this.say());
  },

  fill() {
    for (const id of ["queries", "keys"]) find(id).replaceChildren(...grouped(facts.tokens.map((_, index) => this.token(index))));
    find("stage").dataset.direction = facts.rightToLeft ? "rtl" : "ltr";
    this.hovered = this.weights = null;
  },

  token(index) {
    const [text, special] = [facts.tokens[index], facts.special[index] ? "special" : ""];
    const about = { type: "button", role: "option", value: index, class: special, title: `${text} · ${tokenName(index)}` };
    return make("button", about, make("bdi", {}, text), " ", make("span", { class: "value", "aria-hidden": "true" }));
  },

  hold(event, side) {
    const token = event.target.closest("button");
    const name = token && side + token.value;
    if (token) change({ token: state.token === name ? "" : name });
  },

  hover(event, side) {
    const token = event?.target.closest("button");
    this.hovered = token ? { side, index: Number(token.value) } : null;
    this.draw();
  },

  unpack: () => Promise.all(chosenHeads().map(shownOf)),

  async paint() {
    const heads = chosenHeads();
    const [names, by, input] = [state.heads, reading(), inputs];
    this.paintControls();
    const weights = await Promise.all(heads.map(shownOf));
    if (names !== state.heads || by !== reading() || input !== inputs || state.view !== "head") return; // another one was chosen meanwhile
    this.heads = heads;
    this.weights = weights;
    const missing = heads.filter((_, position) => !weights[position]).map((head) => head.name);
    const small = missing.length ? await thumbnails() : null;
    notice(
      "head-notice",
      missing.length
        ? `The weights of ${missing.join(", ")} are not on this page, only the thumbnail: ${facts.whyNoWeights}. To get them: attnscan report … --heads ${missing.join(",")}`
        : "",
    );
    find("stage").hidden = missing.length === heads.length;
    this.queries = this.paintTokens(find("queries"), "q");
    this.keys = this.paintTokens(find("keys"), "k");
    find("matrices").hidden = !this.queries.length || !this.keys.length;
    this.draw();
    const room = figureRoom(heads.length);
    paintMatrices(find("matrices"), heads, weights, small, this.queries, this.keys, room, (cell) => this.say(cell && this.cellLine(cell)));
    if (printing) this.paintPaper();
    await Promise.all(this.companions.map((paint) => paint(this)));
  },

  paintControls() {
    find("threshold").value = state.from;
    find("threshold-value").textContent = Number(state.from).toFixed(2);
    this.paintLayout(state.layout);
    find("stage").className = this.layout();
    find("panes").className = this.layout();
    find("stage").dataset.size = LENGTH > 160 ? "small" : LENGTH > 64 ? "medium" : "large";
  },

  /** Hide the tokens that the filter leaves out; returns the others. */
  paintTokens(list, side) {
    const shown = [];
    for (const [index, token] of tokensOf(list).entries()) {
      token.hidden = !isAsked(index, side) || (amongWords(reading()) && facts.special[index]);
      setAttribute(token, "aria-selected", String(state.token === side + index));
      if (!token.hidden) shown.push(index);
    }
    const second = segmentsOf(shown.map((index) => facts.segments[index])) > 1 ? shown.findIndex((index) => facts.segments[index] === 1) : -1;
    for (const [index, token] of tokensOf(list).entries()) token.classList.toggle("second", second > 0 && index === shown[second]);
    for (const group of list.children) {
      setVariable(group, "--rows", [...group.children].filter((token) => !token.hidden).length);
    }
    const tokens = visible(list);
    rove(tokens, tokens.find((token) => state.token === side + token.value));
    return shown;
  },

  /** The token whose numbers are shown: the one under the pointer, else the one that is held, if it is there. */
  active() {
    const active = this.hovered || heldToken();
    return active && (active.side === "q" ? this.queries : this.keys).includes(active.index) ? active : null;
  },

  draw() {
    if (!this.weights) return;
    const active = this.active();
    const [queryList, keyList, canvas] = [find("queries"), find("keys"), find("lines")];
    const several = chosenHeads().length > 1;
    const { color, ink } = several ? { color: "var(--text)", ink: "var(--ground)" } : colorsOf(chosenHeads()[0]);
    find("stage").classList.toggle("several", several);
    setVariable(find("stage"), "--color", color);
    setVariable(find("stage"), "--ink", ink);
    const box = several && Math.max(3, Math.min(9, Math.floor(this.breadth(find("stage").clientWidth) / 2 / this.heads.length)));
    setVariable(find("stage"), "--value", several ? `${box * this.heads.length}px` : "2.8em");
    this.paintValues(queryList, "q", active, box);
    this.paintValues(keyList, "k", active, box);
    const queries = active?.side === "q" ? [active.index] : this.queries;
    const keys = active?.side === "k" ? [active.index] : this.keys;
    const every = linesOf(this.heads, this.weights, queries, keys, Number(state.from));
    const count = every.length;
    const lines = strongestOf(every);
    // All that is written comes before here, and all that is read before the canvas changes: long lists are laid out once.
    const horizontal = this.layout() === "horizontal";
    const [from, to] = [anchors(queryList, canvas, horizontal), anchors(keyList, canvas, horizontal)];
    const [width, height] = horizontal
      ? [Math.max(queryList.scrollWidth, keyList.scrollWidth), 220]
      : [this.breadth(find("stage").clientWidth), Math.max(queryList.offsetHeight, keyList.offsetHeight)];
    const context = sized(canvas, width, height);
    for (const line of lines) {
      const [start, end] = [from.get(line.query), to.get(line.key)];
      [line.x1, line.y1, line.x2, line.y2] = horizontal ? [start, 0, end, height] : [0, start, width, end];
    }
    this.drawn = lines;
    drawLines(context, lines);
    notice("most-lines", count > lines.length ? `The ${lines.length.toLocaleString("en")} strongest of ${count.toLocaleString("en")} lines are drawn.` : "");
    const number = `${ofCarried(reading()) ? "share" : "weight"} ${Number(state.from).toFixed(2)}`;
    canvas.setAttribute(
      "aria-label",
      `${count} lines of ${number} or more, from ${queries.length} queries to ${keys.length} keys`,
    );
    this.say();
  },

  layout: () => (printing ? "vertical" : state.layout),

  /** On paper, each row of tokens has its own part of the lines, so that no page's end comes between them. */
  paintPaper() {
    const lines = find("lines");
    const [queries, keys] = ["queries", "keys"].map((id) => visible(find(id)));
    const height = (queries[0] ?? keys[0])?.offsetHeight ?? 0;
    const scale = lines.width / Number.parseFloat(lines.style.width);
    const rows = Array.from({ length: Math.max(queries.length, keys.length) }, (_, row) => {
      const part = make("canvas", { width: lines.width, height: Math.round(height * scale) });
      part.getContext("2d").drawImage(lines, 0, -row * height * scale);
      part.style.width = lines.style.width;
      part.style.height = `${height}px`;
      const [from, to] = [queries, keys].map((tokens) => make("div", {}, tokens[row]?.cloneNode(true) ?? ""));
      return make("div", { class: "row" }, from, part, to);
    });
    for (const name of ["--color", "--ink", "--value"]) setVariable(find("paper"), name, find("stage").style.getPropertyValue(name));
    find("paper").className = `tokens ${chosenHeads().length > 1 ? "several" : ""}`;
    setVariable(find("paper"), "--row", `${height}px`);
    find("paper").replaceChildren(...rows);
  },

  /** How wide the lines are, in CSS pixels, on a stage of some width. */
  breadth: (width) => (width > 700 ? 340 : width > 520 ? 220 : width > 340 ? 140 : 84),

  /** What the heads that are on have between the active token and another one, one number a head. */
  between(active, index) {
    const [query, key] = active.side === "q" ? [active.index, index] : [index, active.index];
    return this.weights.map((weights) => weights?.[query * LENGTH + key] ?? 0);
  },

  /** Write beside the tokens what the active one has with each: a number, or of several heads a box each. */
  paintValues(list, side, active, box) {
    const numbered = active && active.side !== side;
    for (const [index, token] of tokensOf(list).entries()) {
      const isActive = active?.side === side && active.index === index;
      const values = numbered && !token.hidden ? this.between(active, index) : [];
      const full = isActive ? values.concat(this.heads.map(() => 1)) : values;
      const texts = values.map((value) => value.toFixed(DIGITS));
      setText(token.lastChild, box ? "" : texts.join(""));
      setVariable(token.lastChild, "--boxes", box && full.length ? boxes(this.heads, full, box) : "none");
      setVariable(token, "--share", box ? 0 : (values[0] ?? 0));
      const told = box ? texts.map((text, position) => `${this.heads[position].name} ${text}`) : texts;
      setAttribute(token, "aria-label", `${[facts.tokens[index], ...told].join(" ")}, ${tokenName(index)}`);
      token.classList.toggle("active", isActive);
      const [query, key] = side === "k" ? [active?.index, index] : [index, active?.index];
      token.classList.toggle("gold", Boolean(numbered && !token.hidden && isGold(query, key)));
    }
  },

  point(event) {
    const line = lineAt(this.drawn || [], event.offsetX, event.offsetY);
    this.say(line && this.cellLine(line));
  },

  cellLine: ({ query, key, weight, head }) => [
    ...named(query),
    " → ",
    ...named(key),
    ` ${weight.toFixed(DIGITS)} in head ${head.name}`,
  ],

  say(line = null) {
    find("reading").replaceChildren(...(line || this.usualLine()));
    find("reading").classList.toggle("held", this.active() !== null);
    find("reading").classList.toggle("told", line !== null || this.active() !== null);
    find("reading").classList.toggle("several", chosenHeads().length > 1);
  },

  usualLine() {
    const active = this.active();
    const carried = ofCarried(reading());
    if (find("stage").hidden) return [];
    if (!active) {
      const hidden = amongWords(reading()) ? ` Special tokens are removed.` : "";
      const across = SOURCE ? ` Target words, ${this.layout() === "vertical" ? "on the left" : "above"}, look at source words.` : "";
      return [
        `Point at a token, a line or a square to read ${carried ? "shares" : "weights"}; click a token to hold it.${hidden}${across} ${goldLine()}`.trim(),
      ];
    }
    const told = this.heads.map((head, position) => [
      ...(chosenHeads().length > 1 ? [make("b", {}, head.name), " "] : []),
      ...this.strongest(active, position),
    ]);
    return [...told.flatMap((line, position) => [position ? ".\n" : "", ...line]), ".", ...relatedTo(active.index)];
  },

  /** What a token looks most at in a head, or is looked at most by; of what is carried: takes from, or gives to. */
  strongest(active, position) {
    const [of, others] = active.side === "q" ? [0, this.keys] : [1, this.queries];
    const verb = ofCarried(reading()) ? ["takes most from", "gives most to"][of] : ["looks most at", "is looked at most by"][of];
    const value = (index) => this.between(active, index)[position];
    const top = [...others].sort((a, b) => value(b) - value(a) || a - b).slice(0, 2).filter((index) => value(index) >= 0.005);
    const named = top.map((index) => [...called(index), ` (${value(index).toFixed(2)})`]);
    if (!top.length) return [...called(active.index), ` ${verb} nothing`];
    return [...called(active.index), ` ${verb} `, ...named[0], ...(named[1] ? [", then ", ...named[1]] : [])];
  },
};
views.head = headView;

/** Tokens in groups, of which browsers lay out those that are in sight. */
function grouped(tokens) {
  const starts = tokens.map((_, index) => index).filter((index) => index % 32 === 0);
  return starts.map((start) => make("div", { role: "none", class: "group" }, ...tokens.slice(start, start + 32)));
}

const tokensOf = (list) => [...list.querySelectorAll("button")];
const visible = (list) => tokensOf(list).filter((token) => !token.hidden);

/** A box a head, the deeper the more, as a background. */
function boxes(heads, values, size) {
  const stops = values.map((value, place) => {
    const { color } = colorsOf(heads[place]);
    const [start, end] = [place * size, (place + 1) * size - 1];
    return `color-mix(in srgb, ${color} ${(100 * value).toFixed(1)}%, transparent) ${start}px ${end}px, transparent ${end}px ${end + 1}px`;
  });
  return `linear-gradient(to right, ${stops.join(", ")})`;
}
