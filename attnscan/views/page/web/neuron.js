// The neuron view: how one head's queries and keys make one query's weights, number by number.

const ROW = 20; // CSS pixels
let LOGIT_DIGITS;

const neuronView = {
  at: null, // { row, neuron } that is pointed at
  peeked: null, // the query under the pointer

  build() {
    const asked = find("asked");
    asked.addEventListener("pointerover", (event) => {
      const chip = event.target.closest("button");
      if (chip && event.pointerType !== "touch") this.peek(Number(chip.value));
    });
    asked.addEventListener("pointerleave", () => this.peek(null));
    this.paintChoice = segmented("strip", (strip) => change({ strip }));
    const ask = (button) => change({ token: `q${button.value}` });
    asked.addEventListener("click", (event) => event.target.closest("button") && ask(event.target.closest("button")));
    steer(asked, () => [...asked.children].filter((chip) => !chip.hidden), ask);
    find("key-order").addEventListener("change", (event) => change({ keys: event.target.value }));
    find("key-names").addEventListener("focusin", (event) =>
      this.point(Number(event.target.dataset.row), this.at?.neuron ?? 0),
    );
    find("key-names").addEventListener("keydown", (event) => this.key(event));
    for (const id of ["key-strip", "product-strip"]) {
      for (const kind of ["pointermove", "pointerdown"]) {
        find(id).addEventListener(kind, (event) =>
          this.point(Math.floor(event.offsetY / ROW), Math.floor(event.offsetX / this.cell)),
        );
      }
    }
    for (const id of ["key-names", "logits", "softmax"]) {
      find(id).addEventListener("pointerover", (event) => {
        const row = event.target.closest("[data-row]");
        if (row) this.point(Number(row.dataset.row), this.at?.neuron ?? 0);
      });
    }
  },

  fill() {
    LOGIT_DIGITS = facts.neuron.error < 0.01 ? 2 : 1;
    const about = (index) => ({ class: facts.special[index] ? "special" : "", title: tokenName(index) });
    const chips = facts.tokens.map((token, index) =>
      make("button", { type: "button", role: "option", value: index, ...about(index) }, make("bdi", {}, token)),
    );
    refill(find("asked"), ...chips);
    find("asked").dir = facts.rightToLeft ? "rtl" : "ltr";
    this.peeked = null;
  },

  /** Up and down go over keys, left and right over neurons. */
  key(event) {
    const step = STEPS[event.key];
    if (!step || event.altKey || event.ctrlKey || event.metaKey) return;
    event.preventDefault();
    const names = [...find("key-names").children];
    const row = Math.min(names.length - 1, Math.max(0, this.at.row + step[1]));
    this.point(row, Math.min(facts.neuron.size - 1, Math.max(0, this.at.neuron + step[0])));
    rove(names, names[row]);
    names[row].focus();
  },

  /** Show another query for as long as the pointer is on it. */
  peek(query) {
    if (query === this.peeked) return;
    this.peeked = query;
    if (state.view === "neuron") this.paint();
  },

  /** The query: the token under the pointer, else the one that is held, else the first word. */
  query() {
    const asked = [...facts.tokens.keys()].filter((index) => isAsked(index, "q"));
    const first = asked.find((index) => !facts.special[index]) ?? asked[0];
    return this.peeked ?? (asked.includes(heldToken()?.index) ? heldToken().index : first);
  },

  async paint() {
    const [head, input] = [chosenHeads()[0], inputs];
    const [neurons, weights, mask] = await Promise.all([neuronsOf(head), weightsOf(head), maskOf(head.layer)]);
    if (chosenHeads()[0] !== head || input !== inputs || state.view !== "neuron") return; // another one was chosen meanwhile
    find("neurons").hidden = find("story").hidden = !neurons;
    notice("neuron-notice", neurons ? "" : `No neurons to show for head ${head.name}: ${facts.neuron.whyNone}.`);
    if (!neurons) return;
    const query = this.query();
    find("key-order").value = state.keys;
    find("strip").querySelector("[value='q']").hidden = SOURCE > 0;
    this.paintChoice(narrow() || state.strip === "q" ? state.strip : "k");
    find("sheet").dataset.strip = state.strip;
    const chips = [...find("asked").children];
    for (const [index, chip] of chips.entries()) {
      chip.hidden = !isAsked(index, "q");
      setAttribute(chip, "aria-selected", String(index === query));
    }
    rove(chips.filter((chip) => !chip.hidden), chips[query]);
    this.sheet = sheetOf(head, query, neurons, weights, mask);
    this.at = null;
    this.tell();
    this.paintStrips();
    this.paintRows();
    if (printing) this.paintPaper();
    this.point(this.sheet.rows.indexOf(strongest(this.sheet.rows)), largest(strongest(this.sheet.rows).products));
  },

  tell() {
    const { head, query, rows, scaling } = this.sheet;
    const top = strongest(rows);
    find("story").replaceChildren(
      "In head ",
      make("b", {}, head.name),
      " the query ",
      make("b", {}, ...named(query)),
      state.pairs === "all" ? " looks most at " : " looks, of these keys, most at ",
      make("b", {}, ...named(top.key)),
      ` (weight ${top.weight.toFixed(DIGITS)}). Read a row from left to right: the key's neurons (k), `,
      `each times the query's neuron above it (q × k), their sum times ${Number(scaling.toPrecision(3))} (q·k), and what the softmax over all keys makes of it (weight).`,
    );
  },

  paintStrips() {
    const { rows, q, size, largest: most } = this.sheet;
    const room = find("neurons").clientWidth - (narrow() ? 196 : 370); // for the names and the two columns of numbers
    this.cell = Math.max(1, Math.min(10, Math.floor(room / (narrow() ? 1 : 2) / size)));
    const width = size * this.cell;
    paintStrip(sized(find("query-strip"), width, ROW), [q], most.q, this.cell);
    paintStrip(
      sized(find("key-strip"), width, rows.length * ROW),
      rows.map((row) => (state.strip === "q" ? row.q : row.k)),
      most[state.strip === "q" ? "q" : "k"],
      this.cell,
    );
    paintStrip(
      sized(find("product-strip"), width, rows.length * ROW),
      rows.map((row) => row.products),
      most.product,
      this.cell,
    );
    find("query-name").replaceChildren(make("bdi", {}, facts.tokens[this.sheet.query]));
    find("query-scale").textContent = `q, full colour ±${most.q.toFixed(1)}`;
    find("left-name").textContent = state.strip === "q" ? "q of each" : "k";
    find("key-scale").textContent = `±${most[state.strip === "q" ? "q" : "k"].toFixed(1)}`;
    find("product-scale").textContent = `±${most.product.toFixed(2)}`;
    find("key-strip").setAttribute("aria-label", `${size} neurons of ${rows.length} keys; the list of keys reads them`);
    find("product-strip").setAttribute(
      "aria-label",
      `${size} products for each of ${rows.length} keys; the list of keys reads them`,
    );
  },

  paintRows() {
    const { rows } = this.sheet;
    const high = Math.max(...rows.map((row) => Math.abs(row.logit)).filter(Number.isFinite), 1e-9);
    const names = rows.map((row, index) =>
      make(
        "button",
        {
          type: "button",
          role: "option",
          "data-row": index,
          "aria-label": `${facts.tokens[row.key]} (${placeOf(row.key)}), q·k ${signed(row.logit, LOGIT_DIGITS)}, weight ${row.weight.toFixed(DIGITS)}`,
          title: `${facts.tokens[row.key]} · ${tokenName(row.key)}`,
          class: facts.special[row.key] ? "special" : "",
        },
        make("bdi", {}, facts.tokens[row.key]),
      ),
    );
    refill(find("key-names"), ...names);
    rove(names, names[0]);
    find("logits").replaceChildren(
      ...rows.map((row, index) => numberRow(index, signed(row.logit, LOGIT_DIGITS), row.logit / high)),
    );
    find("softmax").replaceChildren(
      ...rows.map((row, index) => numberRow(index, row.weight.toFixed(DIGITS), row.weight)),
    );
  },

  /** On paper, a table: its rows are not cut by a page's end, and each page begins with the headings and the query. */
  paintPaper() {
    const { query, rows, size } = this.sheet;
    const width = size * this.cell;
    const part = (id, row) => {
      const strip = find(id);
      const scale = strip.width / Number.parseFloat(strip.style.width);
      const canvas = make("canvas", { width: strip.width, height: Math.round(ROW * scale) });
      canvas.getContext("2d").drawImage(strip, 0, Math.round(-row * ROW * scale));
      canvas.style.width = `${width}px`;
      canvas.style.height = `${ROW}px`;
      return canvas;
    };
    const line = (tag, cells) => make("tr", {}, ...cells.map((cell) => make(tag, {}, ...[cell].flat())));
    const headings = [...document.querySelectorAll("#sheet .heading")].map((heading) => heading.textContent);
    const asking = [make("bdi", {}, facts.tokens[query]), part("query-strip", 0), find("query-scale").textContent];
    const body = rows.map(({ key }, row) =>
      line("td", [
        make("bdi", {}, facts.tokens[key]),
        part("key-strip", row),
        part("product-strip", row),
        ...["logits", "softmax"].map((id) => make("div", { class: "numbers" }, find(id).children[row].cloneNode(true))),
      ]),
    );
    find("neuron-paper").replaceChildren(
      make("thead", {}, line("th", headings), line("th", asking)),
      make("tbody", {}, ...body),
    );
  },

  /** Mark a row and a neuron, and read out their numbers. */
  point(row, neuron) {
    const { rows, q, size, scaling } = this.sheet;
    if (!rows[row] || neuron < 0 || neuron >= size) return;
    this.at = { row, neuron };
    const { key, k, products } = rows[row];
    find("neuron-reading").replaceChildren(
      `Neuron ${neuron}: q ${signed(q[neuron], 2)} × k of `,
      ...named(key),
      ` ${signed(k[neuron], 2)} × ${Number(scaling.toPrecision(3))} = ${signed(products[neuron], 3)}`,
    );
    for (const mark of document.querySelectorAll("#sheet .mark-row")) mark.style.top = `${row * ROW}px`;
    for (const mark of document.querySelectorAll("#sheet .mark-neuron")) {
      mark.style.left = `${neuron * this.cell}px`;
      mark.style.width = `${this.cell}px`;
    }
    for (const [index, name] of [...find("key-names").children].entries())
      name.setAttribute("aria-selected", String(index === row));
  },
};
views.neuron = neuronView;

/** Every number of the view: for each key its neurons, its products with the query's, their sum, its weight. */
function sheetOf(head, query, neurons, weights, mask) {
  const size = facts.neuron.size;
  const scaling = facts.neuron.scaling[head.layer];
  const q = neurons.query.subarray(query * size, (query + 1) * size);
  const asked = [...facts.tokens.keys()].filter((index) => isAsked(index, "k"));
  const rows = asked.map((key) => {
    const k = neurons.key.subarray(key * size, (key + 1) * size);
    const products = k.map((value, neuron) => value * q[neuron] * scaling);
    const seen = !mask || mask[cellPlace(query, key)] === 1;
    return {
      key,
      k,
      q: neurons.query.subarray(key * size, (key + 1) * size),
      products,
      logit: seen ? products.reduce((sum, value) => sum + value, 0) : NaN,
      weight: weights[query * LENGTH + key],
    };
  });
  if (state.keys === "weight") rows.sort((a, b) => b.weight - a.weight || a.key - b.key);
  const most = {
    q: peak(neurons.query),
    k: peak(neurons.key),
    product: Math.max(...rows.map((row) => peak(row.products))),
  };
  return { head, query, q, rows, size, scaling, largest: most };
}

const peak = (values) => values.reduce((most, value) => Math.max(most, Math.abs(value)), 1e-9);
const strongest = (rows) => rows.reduce((best, row) => (row.weight > best.weight ? row : best));
const largest = (values) =>
  values.reduce((best, value, index) => (Math.abs(value) > Math.abs(values[best]) ? index : best), 0);

function numberRow(index, text, share) {
  const bar = make("i", { class: share < 0 ? "bar negative" : "bar" });
  bar.style.setProperty("--share", Number.isNaN(share) ? 0 : Math.abs(share));
  return make("div", { "data-row": index }, make("span", {}, text), bar);
}

/** Rows of cells, one colour for numbers above zero and one for those below, the deeper the larger. */
function paintStrip(context, rows, most, cell) {
  const [above, below] = [color("--above"), color("--below")];
  const gap = cell > 4 ? 1 : 0;
  for (const [y, values] of rows.entries()) {
    for (let x = 0; x < values.length; x++) {
      context.globalAlpha = Math.sqrt(Math.abs(values[x]) / most);
      context.fillStyle = values[x] < 0 ? below : above;
      context.fillRect(x * cell, y * ROW + 1, cell - gap, ROW - 2);
    }
  }
}
