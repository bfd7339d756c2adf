// Sentences of a treebank: which one is shown, and its dependency tree over the head view, with the arcs that heads follow.

const LEVEL = 22; // CSS pixels between two levels of arcs
const ARROW = 7; // how high an arrowhead is
const BEND = 6; // of an arc's corners
const MOST_LETTERS = 90; // of a sentence in the list
const numberOf = ({ tree }) => String(tree.number);
usual.sentence = numberOf(facts.sentences[0]);
allowed.sentence = (text) => facts.sentences.map(numberOf).includes(text);

/** Put the sentence that is asked for in the place of the one that is shown; its texts go by its place and their ids. */
async function takeSentence() {
  const wanted = state.sentence;
  if (wanted === numberOf(facts)) return;
  const place = facts.sentences.findIndex((each) => numberOf(each) === wanted);
  const next = place ? `${place}:` : "";
  const [table, more] = await Promise.all(["table-bytes", "profile-bytes"].map((id) => factsOfInput(next, id)));
  if (state.sentence !== wanted) return;
  prefix = next;
  takeInput(facts.sentences[place], table, more);
  for (const [id, why] of Object.entries(facts.whyNone)) pattern[id].whyNone = why;
  if (!allowed.token(state.token)) change({ token: "" });
  setText(find("size"), sizeOfInput());
  for (const view of Object.values(views)) view.fill?.();
  await show();
}

const treePane = {
  build() {
    this.select = make("select", { id: "sentence" });
    for (const each of facts.sentences) {
      const [{ number }, letters] = [each.tree, [...each.tree.text]];
      this.select.append(make("option", { value: number }, `${number}: ${letters.slice(0, MOST_LETTERS).join("")}${letters.length > MOST_LETTERS ? "…" : ""}`));
    }
    this.select.addEventListener("change", () => change({ sentence: this.select.value }));
    const label = make("label", { class: "field" }, make("span", { class: "name" }, "Sentence"), this.select);
    document.querySelector(".sentences").replaceChildren(label);
    this.canvas = make("canvas", { "aria-hidden": "true" });
    this.labels = make("div", { class: "labels", role: "group", "aria-label": "Arcs of the dependency tree" });
    this.words = make("div", { class: "words" });
    const whole = make("div", { class: "whole" }, this.canvas, this.labels, this.words);
    this.scroll = make("div", { class: "reach", tabindex: "0", role: "region", "aria-label": "Dependency tree" }, whole);
    this.line = make("p", { class: "hint", "aria-live": "polite" });
    find("panes").before(make("div", { id: "tree" }, this.scroll, this.line));
    this.labels.addEventListener("click", (event) => this.hold(event.target.closest("button")));
    for (const name of ["pointerover", "focusin"]) this.labels.addEventListener(name, (event) => this.light(event.target.closest("button")));
    for (const name of ["pointerleave", "focusout"]) this.labels.addEventListener(name, () => this.light(null));
    steer(this.labels, () => [...this.labels.children]);
  },

  /** Lay out the words, the arcs and their labels anew. */
  lay() {
    if (this.laid === inputs) return;
    this.laid = inputs;
    const { words, heads, relations } = facts.tree;
    const known = new Set(facts.tree.wordOf);
    this.words.dir = facts.rightToLeft ? "rtl" : "ltr";
    this.words.replaceChildren(
      ...words.map((word, place) => {
        const about = { class: heads[place] === null ? "root" : "", title: known.has(place) ? word : `${word}: no token is of this word` };
        const element = make("bdi", about, word);
        const besideHead = heads[place] !== null && Math.abs(heads[place] - place) === 1; // its arc has room for its name
        element.style.setProperty("--letters", besideHead ? relations[place].length : 0);
        return element;
      }),
    );
    const arcs = heads.flatMap((head, dependent) => (head === null ? [] : [{ dependent, head, relation: relations[dependent] }]));
    level(arcs);
    this.labels.replaceChildren(...arcs.map(({ relation }, place) => make("button", { type: "button", value: place }, relation)));
    [this.arcs, this.lit] = [arcs, null]; // only now: the focus has left an arc of the sentence before
    this.scroll.scrollLeft = facts.rightToLeft ? this.scroll.scrollWidth : 0;
  },

  async paint(view) {
    this.select.value = state.sentence;
    const [input, by] = [inputs, ofCarried(reading()) ? "carried" : "weight"];
    const most = await once(`most-${by}`, async () => joined(await bytesOf(`most-${by}`)));
    if (input !== inputs || !view.heads) return;
    this.lay();
    const count = facts.tree.words.length;
    const follows = (head, from, to) => most[head.index * count + from] === to + 1;
    for (const arc of this.arcs) {
      const { dependent, head } = arc;
      arc.told = view.heads.map((each, place) => ({
        each,
        up: follows(each, dependent, head),
        down: follows(each, head, dependent),
        weights: [wordWeight(view.weights[place], dependent, head), wordWeight(view.weights[place], head, dependent)],
      }));
      arc.up = arc.told.find(({ up }) => up);
      arc.down = arc.told.find(({ down }) => down);
    }
    this.heads = view.heads;
    this.draw();
  },

  draw() {
    const boxes = [...this.words.children].map((word) => ({ middle: word.offsetLeft + word.offsetWidth / 2, width: word.offsetWidth }));
    anchor(this.arcs, boxes);
    const height = LEVEL * (1 + Math.max(0, ...this.arcs.map((arc) => arc.level)));
    const context = sized(this.canvas, this.words.offsetWidth, height);
    this.drawArcs(context, height);
    const labels = [...this.labels.children];
    for (const [place, arc] of this.arcs.entries()) {
      const label = labels[place];
      setVariable(label, "--x", `${(arc.from + arc.to) / 2}px`);
      setVariable(label, "--y", `${height - arc.level * LEVEL}px`);
      label.classList.toggle("followed", Boolean(arc.up || arc.down));
      setAttribute(label, "aria-label", this.told(arc).join(". "));
      setAttribute(label, "title", this.told(arc).join("\n"));
    }
    rove(labels, labels.includes(document.activeElement) ? document.activeElement : labels.find((label) => label.matches(".followed")));
    this.say();
  },

  drawArcs(context, height) {
    context.clearRect(0, 0, this.canvas.width, this.canvas.height);
    const rank = (arc) => (arc === this.lit ? 2 : arc.up || arc.down ? 1 : 0);
    for (const arc of [...this.arcs].sort((a, b) => rank(a) - rank(b))) {
      const by = arc.up ?? arc.down;
      context.strokeStyle = context.fillStyle = by ? colorsOf(by.each).color : color(arc === this.lit ? "--faint" : "--pale");
      context.lineWidth = (by ? 2 : 1) + (arc === this.lit ? 1 : 0);
      const top = height - arc.level * LEVEL;
      context.beginPath();
      context.moveTo(arc.from, height);
      context.arcTo(arc.from, top, arc.to, top, BEND);
      context.arcTo(arc.to, top, arc.to, height, BEND);
      context.lineTo(arc.to, height);
      context.stroke();
      for (const x of [arc.up && arc.headX, arc.down && arc.dependentX].filter((place) => place !== undefined)) {
        context.beginPath();
        context.moveTo(x - ARROW / 2, height - ARROW);
        context.lineTo(x + ARROW / 2, height - ARROW);
        context.lineTo(x, height);
        context.fill();
      }
    }
  },

  /** What heads make of an arc, a line each. */
  told({ dependent, head, relation, told }) {
    const words = facts.tree.words;
    const way = (from, to, weight, followed) =>
      `${words[from]} → ${words[to]}${weight === null ? "" : ` ${weight.toFixed(2)}`}${followed ? ", its most attended word" : ""}`;
    return told.map(({ each, up, down, weights }) => {
      const of = told.length > 1 ? ` in ${each.name}` : "";
      return `${relation}${of}: ${way(dependent, head, weights[0], up)}; ${way(head, dependent, weights[1], down)}`;
    });
  },

  say() {
    if (this.lit) return setText(this.line, this.told(this.lit).join("\n"));
    const by = ofCarried(reading()) ? "By what it carries" : "By attention weight";
    const lines = this.heads.map((each) => {
      const of = (side) => this.arcs.filter((arc) => arc.told.find((known) => known.each === each)[side]).length;
      return `${by}, head ${each.name} follows ${of("up")} of ${this.arcs.length} arcs from a word to its head, ${of("down")} from a head to its word. Over ${facts.syntaxOf}: ${facts.syntax[each.index]}.`;
    });
    setText(this.line, lines.join("\n"));
  },

  light(label) {
    this.lit = label ? this.arcs[Number(label.value)] : null;
    this.drawArcs(this.canvas.getContext("2d"), parseFloat(this.canvas.style.height));
    this.say();
  },

  /** Hold the first token of an arc's word as the query below. */
  hold(label) {
    const token = label ? facts.tree.wordOf.indexOf(this.arcs[Number(label.value)].dependent) : -1;
    if (token >= 0) change({ token: state.token === `q${token}` ? "" : `q${token}` });
  },
};

/** Give each arc the lowest level at which it lies above all shorter ones that it shares words with. */
function level(arcs) {
  const span = ({ dependent, head }) => Math.abs(dependent - head);
  const [start, end] = [({ dependent, head }) => Math.min(dependent, head), ({ dependent, head }) => Math.max(dependent, head)];
  const placed = [];
  for (const arc of [...arcs].sort((a, b) => span(a) - span(b))) {
    const under = placed.filter((other) => start(other) < end(arc) && start(arc) < end(other));
    arc.level = 1 + Math.max(0, ...under.map((other) => other.level));
    placed.push(arc);
  }
}

/** Where arcs stand on their words: side by side, so that none crosses another of the same word. */
function anchor(arcs, boxes) {
  const ends = boxes.map(() => []);
  for (const arc of arcs) {
    const { dependent, head } = arc;
    ends[dependent].push({ arc, name: "dependentX", away: boxes[head].middle - boxes[dependent].middle });
    ends[head].push({ arc, name: "headX", away: boxes[dependent].middle - boxes[head].middle });
  }
  for (const [place, here] of ends.entries()) {
    const apart = Math.min(8, boxes[place].width / Math.max(1, here.length));
    here.sort((a, b) => 1 / a.away - 1 / b.away); // to the left the nearest first, to the right the farthest
    for (const [slot, { arc, name }] of here.entries()) arc[name] = boxes[place].middle + (slot - (here.length - 1) / 2) * apart;
  }
  for (const arc of arcs) [arc.from, arc.to] = [arc.dependentX, arc.headX].sort((a, b) => a - b);
}

/** What a word attends to another with: the mean over its tokens of the sum over the other's; null if it is not known. */
function wordWeight(numbers, from, to) {
  const tokens = (word) => facts.tree.wordOf.flatMap((owner, token) => (owner === word ? [token] : []));
  const [queries, keys] = [tokens(from), tokens(to)];
  if (!numbers || !queries.length) return null;
  return queries.reduce((sum, query) => sum + keys.reduce((all, key) => all + numbers[query * LENGTH + key], 0), 0) / queries.length;
}

treePane.build();
headView.companions.push((view) => treePane.paint(view));
onShow.push(takeSentence);
