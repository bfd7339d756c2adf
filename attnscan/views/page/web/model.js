// The model view: every head as a thumbnail of its weights, or of what it carries, in the colour of its label.

const THUMBNAIL = 84; // CSS pixels, about

const modelView = {
  build() {
    find("order").addEventListener("change", (event) => change({ order: event.target.value }));
    find("legend").addEventListener("click", (event) => {
      const button = event.target.closest("button");
      if (button) change({ only: state.only === button.value ? "" : button.value });
    });
    find("thumbnails").addEventListener("click", (event) => {
      const button = event.target.closest("button");
      if (button) openHead(button.value, event);
    });
    steer(find("thumbnails"), () => this.inOrder, undefined, () => this.columns());
    steer(find("legend"), () => [...find("legend").children]);
    if (!OF_PAIRS) this.paintShape = segmented("shape", (shape) => change({ shape }));
  },

  renew() {
    const others = scored.map((id) => make("option", { value: id }, `by ${id}`));
    find("order").replaceChildren(find("order").options[0], ...others);
    this.cells = heads.map((head) => {
      const face = make(OF_PAIRS ? "span" : "canvas", { class: "face", "aria-hidden": "true" });
      const caption = make("span", { class: "caption" }, make("b", {}, head.name), " ", make("span"));
      return make("button", { type: "button", value: head.name }, face, " ", caption);
    });
    delete find("thumbnails").dataset.order;
  },

  /** Everything is to be painted anew. */
  fill() {
    this.painted = null;
    for (const canvas of find("thumbnails").querySelectorAll("canvas")) delete canvas.dataset.painted;
  },

  /** How many heads stand in a row. */
  columns() {
    if (state.order === "place") return HEADS;
    const top = this.inOrder[0].offsetTop;
    const next = this.inOrder.findIndex((cell) => cell.offsetTop > top);
    return next < 0 ? this.inOrder.length : next;
  },

  ranked() {
    if (state.order === "place") return heads;
    const number = (head) => (this.valueOf(head, state.order) === "" ? -1 : Number(this.valueOf(head, state.order)));
    return [...heads].sort((a, b) => number(b) - number(a) || a.index - b.index);
  },

  /** What heads are ordered by: a score; empty where there is none. */
  valueOf: (head, id) => (scored.includes(id) ? scoreOf(head, id) : ""),

  /** Paint what has changed since it was painted last: a view that is come back to is there already. */
  async paint() {
    const now = JSON.stringify([state.order, state.only, state.shape, reading(), OF_PAIRS && [theme(), narrow()]]);
    if (this.painted !== now) {
      this.painted = now;
      this.paintCells();
    }
    rove(this.inOrder, this.cells[chosenHeads()[0].index]);
    if (OF_PAIRS) return;
    this.paintShape(state.shape);
    const [by, pairs, input] = [reading(), state.pairs, inputs];
    const bytes = await thumbnails();
    if (by !== reading() || pairs !== state.pairs || input !== inputs) return; // another reading was chosen meanwhile
    find("thumbnails").classList.toggle("of-lines", state.shape === "lines");
    const cells = thumbnailCells();
    divide(find("thumbnails"), cells.queries, cells.keys);
    setVariable(find("thumbnails"), "--aspect", state.shape === "lines" ? 1 : aspectOf(cells));
    for (const head of heads) {
      this.paintThumbnail(head, bytes, cells);
      outlineGold(this.cells[head.index], cells.queries, cells.keys, 2 * THUMBNAIL, 2 * THUMBNAIL);
    }
  },

  paintCells() {
    find("order").value = state.order;
    this.paintHint();
    this.paintLegend();
    const ranked = this.ranked();
    const byPlace = state.order === "place";
    const grid = find("thumbnails");
    grid.classList.toggle("by-place", byPlace);
    grid.style.setProperty("--columns", HEADS);
    this.inOrder = ranked.map((head) => this.cells[head.index]);
    for (const head of heads) this.paintCaption(head);
    const order = `${state.order} ${this.inOrder.map((cell) => cell.value)}`;
    if (grid.dataset.order === order) return;
    grid.dataset.order = order;
    refill(grid, ...(byPlace ? this.withAxes() : this.inOrder));
  },

  /** What the squares and their letters are of, and whether any head does what was asked for. */
  paintHint() {
    const title = facts.titles[reading()];
    const dark = ofCarried(reading()) ? "the head carries from there" : "weight";
    const wanted = state.only || (state.order === "place" ? "" : state.order);
    find("model-hint").textContent = [
      `${title[0].toUpperCase()}${title.slice(1)}, by letter and colour; each square is one head`,
      OF_PAIRS
        ? `, with the score of its label and the 95 % interval. Choose one to see what is known of it. `
        : `: ${SOURCE ? "target words" : "queries"} ${state.shape === "lines" ? "on the left" : "downwards"}, ${SOURCE ? "source words" : "keys"} ${state.shape === "lines" ? "on the right" : "across"}, the more colour, the more ${dark}${!SOURCE && segmentsOf(facts.segments) > 1 ? "; where B begins, a line" : ""}. ${goldLine()}Choose one to see its lines. `,
      OF_PAIRS || heads.every((head) => holds("weights", head)) ? "" : "Dashed: a thumbnail alone. ",
      heads.some(rests) ? "Paler: rests, more than half is on special tokens. " : "",
      heads.some((head) => isUnsure(head)) ? `?: ${facts.whyUnsure}. ` : "",
      scored.includes(state.order) && heads.every((head) => scoreOf(head, state.order) === "")
        ? `No head has a rank by ${state.order}: ${whyNone(state.order)}.`
        : wanted in kindNamed && !heads.some((head) => isOf(head, wanted))
          ? `No head does this: ${kindNamed[wanted].words}.`
          : "",
    ].join("");
  },

  /** The cells with the numbers of layers and heads around them. */
  withAxes() {
    const across = Array.from({ length: HEADS }, (_, head) =>
      make("span", { class: "axis", "aria-hidden": "true" }, String(head)),
    );
    const lines = Array.from({ length: LAYERS }, (_, layer) => [
      make("span", { class: "axis", "aria-hidden": "true" }, String(heads[layer * HEADS].layerNumber)),
      ...this.inOrder.slice(layer * HEADS, (layer + 1) * HEADS),
    ]);
    return [make("span", { class: "axis corner", "aria-hidden": "true" }), ...across, ...lines.flat()];
  },

  paintCaption(head) {
    const cell = this.cells[head.index];
    const kind = kindOf(head);
    const id = state.order === "place" ? kind.id : state.order;
    const score = id === kind.id ? cellOf(head, "share") : this.valueOf(head, id);
    const number = score ? Number(score).toFixed(2) : "";
    const shown = state.order === "place" && !OF_PAIRS ? markOf(head) : number || "–";
    setText(cell.lastChild.lastChild, shown);
    if (OF_PAIRS) cell.querySelector(".face").replaceChildren(...faceOf(head, id));
    cell.classList.toggle("rests", rests(head));
    setVariable(cell, "--color", kind.color);
    cell.classList.toggle("absent", !OF_PAIRS && !holds("weights", head));
    cell.classList.toggle("none", kind.id === "none");
    cell.classList.toggle("dimmed", state.only !== "" && !isOf(head, state.only));
    const said = id === kind.id ? (number && ` ${number}`) : number && `, ${id} ${number}`;
    const sure = isUnsure(head) ? ", not sure" : "";
    const resting = rests(head) ? ", rests on special tokens" : "";
    const face = OF_PAIRS ? [markOf(head), ...(narrow() ? [shown] : [intervalOf(head, id)])] : [];
    const written = [...face, head.name, ...(OF_PAIRS && narrow() ? [] : [shown])].filter(Boolean).join(" ");
    setAttribute(cell, "aria-label", `${written}, ${kind.words}${said}${sure}${resting}`);
    setAttribute(cell, "title", `${head.name} ${toldOf(head)}${sure}${resting}${said && id !== kind.id ? `\n${id} ${number}` : ""}`);
  },

  paintThumbnail(head, bytes, cells) {
    const canvas = this.cells[head.index].firstChild;
    const color = squareColor(kindOf(head));
    const now = `${color} ${reading()} ${state.pairs} ${state.shape}`;
    if (canvas.dataset.painted === now) return; // it is there already
    canvas.dataset.painted = now;
    const paint = state.shape === "lines" ? paintLineThumbnail : paintThumbnail;
    paint(canvas, head, bytes, color, cells);
  },

  paintLegend() {
    const buttons = kindsShown().map((kind) => {
      const button = make(
        "button",
        { type: "button", value: kind.id, title: kind.counts, "aria-pressed": String(state.only === kind.id) },
        make("i", { class: kind.id === "none" ? "swatch none" : "swatch" }),
        `${kind.letter} ${kind.words} `,
        make("span", { class: "count" }, String(countOf(kind.id))),
      );
      button.style.setProperty("--color", kind.color);
      return button;
    });
    refill(find("legend"), ...buttons);
    rove(buttons, buttons.find((button) => button === document.activeElement));
  },
};
views.model = modelView;
