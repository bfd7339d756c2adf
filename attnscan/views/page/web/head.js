// The head view: which token looks at which, in one head or several.

const DIGITS = facts.weightSteps >= 1000 ? 3 : 2;

const headView = {
  hovered: null, // { side, index } while the pointer is on a token

  build() {
    for (const [id, side] of [
      ["queries", "q"],
      ["keys", "k"],
    ]) {
      const list = find(id);
      list.append(
        ...facts.tokens.map((token, index) =>
          make(
            "button",
            {
              type: "button",
              role: "option",
              value: index,
              class: facts.special[index] ? "special" : "",
              title: `${token} · token ${index}`,
            },
            make("bdi", {}, token),
            make("span", { class: "value" }),
          ),
        ),
      );
      list.addEventListener("click", (event) => this.hold(event, side));
      list.addEventListener("pointerover", (event) => this.hover(event, side));
      list.addEventListener("pointerleave", () => this.hover(null));
      list.addEventListener("focusin", (event) => event.target.matches(":focus-visible") && this.hover(event, side));
      list.addEventListener("focusout", () => this.hover(null));
      steer(
        list,
        () => [...list.children].filter((token) => !token.hidden),
        () => 1,
      );
    }
    find("heads").addEventListener("change", (event) => {
      const names = event.target.value.split(/[\s,]+/).filter((name) => headNamed.has(name));
      change({ heads: [...new Set(names)].join(",") || state.heads });
      event.target.value = state.heads.replaceAll(",", ", ");
    });
    find("pairs").addEventListener("change", (event) => change({ pairs: event.target.value }));
    find("threshold").addEventListener("input", (event) => change({ from: event.target.value }));
    this.paintLayout = segmented("layout", (layout) => change({ layout }));
    find("pairs-field").hidden = new Set(facts.segments).size < 2;
    document.addEventListener(
      "keydown",
      (event) => event.key === "Escape" && state.view === "head" && change({ token: "" }),
    );
    const canvas = find("lines");
    canvas.addEventListener("pointermove", (event) => this.point(event));
    canvas.addEventListener("pointerleave", () => this.say());
    find("stage").dataset.direction = facts.rightToLeft ? "rtl" : "ltr";
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

  async paint() {
    const heads = chosenHeads();
    const [names, by] = [state.heads, state.by];
    this.paintControls();
    const weights = await Promise.all(heads.map(shownOf));
    if (names !== state.heads || by !== state.by || state.view !== "head") return; // another one was chosen meanwhile
    this.heads = heads;
    this.weights = weights;
    const missing = heads.filter((_, position) => !weights[position]).map((head) => head.name);
    notice(
      "head-notice",
      missing.length ? `Not on this page: the weights of ${missing.join(", ")}; ${facts.whyNoWeights}.` : "",
    );
    find("stage").hidden = missing.length === heads.length;
    this.queries = this.paintTokens(find("queries"), "q", state.pairs[0]);
    this.keys = this.paintTokens(find("keys"), "k", state.pairs[1]);
    this.draw();
  },

  paintControls() {
    find("heads").value = state.heads.replaceAll(",", ", ");
    find("pairs").value = state.pairs;
    find("threshold").value = state.from;
    find("threshold-value").textContent = Number(state.from).toFixed(2);
    this.paintLayout(state.layout);
    find("stage").className = state.layout;
    find("stage").dataset.size = LENGTH > 160 ? "small" : LENGTH > 64 ? "medium" : "large";
  },

  /** Hide the tokens that the filter leaves out; returns the others. */
  paintTokens(list, side, sentence) {
    const segment = state.pairs === "all" ? null : "ab".indexOf(sentence);
    const shown = [];
    for (const [index, token] of [...list.children].entries()) {
      const elsewhere = segment !== null && facts.segments[index] !== segment;
      token.hidden = elsewhere || (amongWords(state.by) && facts.special[index]);
      setAttribute(token, "aria-selected", String(state.token === side + index));
      if (!token.hidden) shown.push(index);
    }
    const visible = [...list.children].filter((token) => !token.hidden);
    rove(
      visible,
      visible.find((token) => state.token === side + token.value),
    );
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
    this.paintValues(queryList, "q", active, (index) => this.mean(index, active.index));
    this.paintValues(keyList, "k", active, (index) => this.mean(active.index, index));
    setVariable(find("stage"), "--color", lineColor(this.heads[0], 0, this.heads.length));
    const queries = active?.side === "q" ? [active.index] : this.queries;
    const keys = active?.side === "k" ? [active.index] : this.keys;
    const lines = linesOf(this.heads, this.weights, queries, keys, Number(state.from));
    const horizontal = state.layout === "horizontal";
    const [width, height] = horizontal
      ? [Math.max(queryList.scrollWidth, keyList.scrollWidth), 220]
      : [this.breadth(find("stage").clientWidth), Math.max(queryList.offsetHeight, keyList.offsetHeight)];
    const context = sized(canvas, width, height);
    const [from, to] = [anchors(queryList, canvas, horizontal), anchors(keyList, canvas, horizontal)];
    this.drawn = drawLines(context, lines, (line) =>
      horizontal
        ? [from.get(line.query), 0, to.get(line.key), height]
        : [0, from.get(line.query), width, to.get(line.key)],
    );
    const number = `${ofCarried(state.by) ? "share" : "weight"} ${Number(state.from).toFixed(2)}`;
    canvas.setAttribute(
      "aria-label",
      `${lines.length} lines of ${number} or more, from ${queries.length} queries to ${keys.length} keys`,
    );
    this.say();
  },

  /** How wide the lines are, in CSS pixels, on a stage of some width. */
  breadth: (width) => (width > 700 ? 340 : width > 460 ? 220 : 120),

  /** The mean of the chosen heads, of weights or of what they carry. */
  mean(query, key) {
    const there = this.weights.filter((weights) => weights);
    return there.reduce((sum, weights) => sum + weights[query * LENGTH + key], 0) / there.length;
  },

  /** Write weights beside the tokens that the active one looks at, or that look at it. */
  paintValues(list, side, active, weight) {
    const numbered = active && active.side !== side;
    for (const [index, token] of [...list.children].entries()) {
      const value = numbered && !token.hidden ? weight(index) : null;
      setText(token.lastChild, value === null ? "" : value.toFixed(DIGITS));
      setVariable(token, "--share", value ?? 0);
      token.classList.toggle("active", active?.side === side && active.index === index);
    }
  },

  point(event) {
    const line = lineAt(this.drawn || [], event.offsetX, event.offsetY);
    this.say(
      line && [
        ...named(line.query),
        " → ",
        ...named(line.key),
        ` ${line.weight.toFixed(DIGITS)} in head ${line.head.name}`,
      ],
    );
  },

  say(line = null) {
    find("reading").replaceChildren(...(line || this.usualLine()));
    find("reading").classList.toggle("held", this.active() !== null);
  },

  usualLine() {
    const active = this.active();
    const carried = ofCarried(state.by);
    if (!active) {
      const hidden = amongWords(state.by) ? ` Special tokens are hidden; by ${carried ? "carried" : "weight"}, they are there.` : "";
      return [
        `Point at a token or a line to read ${carried ? "shares" : "weights"}; click a token to hold it.${hidden}`,
      ];
    }
    const token = named(active.index);
    const asQuery = carried
      ? ["How much is carried to ", ...token, " from each token"]
      : ["How much ", ...token, " looks at each token"];
    const asKey = carried
      ? ["How much is carried to each token from ", ...token]
      : ["How much each token looks at ", ...token];
    const of = this.heads.length > 1 ? `mean of ${this.heads.length} heads` : `head ${this.heads[0].name}`;
    return [...(active.side === "q" ? asQuery : asKey), `: ${of}.`, ...relatedTo(active.index)];
  },
};
views.head = headView;
