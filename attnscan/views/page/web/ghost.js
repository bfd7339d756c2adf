// The ghost of a perfect head: outlines of the cells that a head would fill if it did nothing but follow a pattern.

Object.assign(usual, { ghost: "" }); // the pattern whose outlines stay
Object.assign(allowed, { ghost: (text) => text === "" || scored.includes(text) });

const TARGET_STEPS = 65535;
const ghost = { over: "", drawn: "", targets: [] }; // the pattern under the pointer or the focus; what is unpacked

/** Outline a pattern's target for as long as the pointer or the focus is on its name. */
async function haunt(id) {
  if (ghost.over === id) return;
  ghost.over = id;
  await unpackGhost();
  paintThumbnailGhosts();
  if (state.view === "head") headView.draw();
}

/** What has to be there before outlines are drawn: the targets under the mask of every layer. */
async function unpackGhost() {
  const [id, input] = [ghost.over || state.ghost, inputs];
  const masks = Math.max(1, ...facts.maskOfLayer.map((mask) => mask + 1));
  const packed = Array.from({ length: id || facts.gold ? masks : 0 }, (_, mask) => `targets-${mask}`);
  const targets = packed.every(cargo.has)
    ? await Promise.all(packed.map((name) => once(name, async () => joined(await bytesOf(name)))))
    : [];
  if (input === inputs && id === (ghost.over || state.ghost)) Object.assign(ghost, { drawn: id, targets });
}

/** What a perfect head of a layer gives a key, in [0, 1]; null while no pattern is asked for. */
function perfect(layer, id = ghost.drawn) {
  const target = ghost.targets[facts.maskOfLayer[layer] ?? 0];
  if (!id || !target) return null;
  const start = facts.patterns.findIndex((kind) => kind.id === id) * cellPlace(LENGTH, 0);
  return (query, key) =>
    (amongWords(reading()) && facts.special[key]) || query < SOURCE ? 0 : target[start + cellPlace(query, key)] / TARGET_STEPS;
}

const GHOST_MARGIN = 2; // CSS pixels around a matrix, for the lines at its edge
const SIDES = [[-1, 0], [1, 0], [0, -1], [0, 1]];

const GOLD = "aligned"; // the pattern of gold links, which are always outlined

/** Where gold links are, or why there are none; nothing where none were asked for. */
function goldLine() {
  if (facts.gold) return "Outlined in orange: gold links. ";
  return pattern[GOLD]?.whyNone ? `No gold links are outlined: ${pattern[GOLD].whyNone}. ` : "";
}

/** Whether a gold link is between a query and a key. */
const isGold = (query, key) => facts.gold && (perfect(0, GOLD)?.(query, key) ?? 0) > 0;

/** A picture of the lines between cells that a perfect head would fill and others, as a background; fainter for less. */
function ghostPicture(layer, queries, keys, width, height, id = ghost.drawn, shade = "--text") {
  const at = perfect(layer, id);
  if (!at || !queries.length || !keys.length) return "none";
  const canvas = document.createElement("canvas");
  const context = sized(canvas, width + 2 * GHOST_MARGIN, height + 2 * GHOST_MARGIN);
  context.translate(GHOST_MARGIN, GHOST_MARGIN);
  const [across, down] = [width / keys.length, height / queries.length];
  const isFilled = (row, column) => row in queries && column in keys && at(queries[row], keys[column]) > 0;
  for (const [ink, thick] of [["--ground", 3], [shade, 1.5]]) {
    Object.assign(context, { strokeStyle: color(ink), lineWidth: thick });
    for (const [row, query] of queries.entries()) {
      const most = keys.reduce((largest, key) => Math.max(largest, at(query, key)), 0);
      for (const [column, key] of keys.entries()) {
        if (!isFilled(row, column)) continue;
        context.globalAlpha = 0.35 + (0.65 * at(query, key)) / most;
        context.beginPath();
        for (const [below, beside] of SIDES) {
          if (isFilled(row + below, column + beside)) continue;
          const [x, y] = [(column + (beside > 0)) * across, (row + (below > 0)) * down];
          context.moveTo(x, y);
          context.lineTo(beside ? x : x + across, below ? y : y + down);
        }
        context.stroke();
      }
    }
  }
  return `url(${canvas.toDataURL()})`;
}

/** Outline a matrix: a figure of `matrixOf`, which says what it shows. */
function paintGhost(figure) {
  const { layer, queries, keys, cell, ghost: painted } = figure.shows;
  const now = `${ghost.drawn} ${reading()} ${theme()}`;
  if (painted === now) return; // it is there already
  figure.shows.ghost = now;
  const place = [layer, queries, keys, cell * keys.length, cell * queries.length];
  setVariable(figure, "--ghost", ghostPicture(...place));
  if (facts.gold) setVariable(figure, "--gold", ghostPicture(...place, GOLD, "--warn"));
}

/** Outline all thumbnails: one picture for all layers with one mask. */
function paintThumbnailGhosts() {
  if (state.view !== "model") return;
  const tokens = [...facts.tokens.keys()].filter((index) => !(amongWords(reading()) && facts.special[index]));
  const [queries, keys] = ["q", "k"].map((side) => tokens.filter((index) => isAsked(index, side)));
  for (const [name, id, shade] of [["--ghost", ghost.drawn, "--text"], ...(facts.gold ? [["--gold", GOLD, "--warn"]] : [])]) {
    const pictures = new Map();
    for (const head of heads) {
      const mask = facts.maskOfLayer[head.layer] ?? 0;
      if (!pictures.has(mask)) pictures.set(mask, ghostPicture(head.layer, queries, keys, 2 * THUMBNAIL, 2 * THUMBNAIL, id, shade));
      setVariable(views.model.cells[head.index], name, pictures.get(mask));
    }
  }
}

/** Of each query with a target, what a head has inside the outlines: the score is the mean of these. */
function insideOutlines(head, numbers) {
  const at = perfect(head.layer);
  const inside = new Map();
  if (!at || !numbers) return inside;
  for (let query = 0; query < LENGTH; query++) {
    let [sum, whole, eligible] = [0, 0, false];
    for (let key = 0; key < (SOURCE || LENGTH); key++) {
      const [share, number] = [at(query, key), numbers[query * LENGTH + key]];
      eligible ||= share > 0;
      whole += number;
      sum += pattern[ghost.drawn].even ? Math.min(number, share) : number * share;
    }
    if (eligible && whole) inside.set(query, sum);
  }
  return inside;
}

/** Write beside the queries what stands in their outlines, and outline all matrices. */
function paintGhosts(view) {
  for (const figure of document.querySelectorAll("#head .matrix")) if (figure.shows) paintGhost(figure);
  if (!ghost.drawn || view.active() || chosenHeads().length > 1 || !view.heads.length) return;
  const inside = insideOutlines(view.heads[0], view.weights[0]);
  for (const token of visible(find("queries"))) {
    const share = inside.get(Number(token.value));
    if (share === undefined) continue;
    setText(token.lastChild, share.toFixed(DIGITS));
    setVariable(token, "--share", share);
    setAttribute(token, "aria-label", `${facts.tokens[token.value]} ${share.toFixed(DIGITS)} in the outlines, ${tokenName(Number(token.value))}`);
  }
}

/** What the outlines are, as a line; null where there are none. */
function ghostLine() {
  if (!ghost.drawn) return null;
  const id = ghost.drawn;
  const told = shownHeads().map((head) => {
    const score = scoreOf(head, id);
    return score ? ` Head ${head.name}: ${Number(score).toFixed(DIGITS)}, by even attention ${chanceOf(head, id).toFixed(DIGITS)}.` : ` Head ${head.name}: ${whyNone(id)}.`;
  });
  const mean = chosenHeads().length > 1 || state.pairs !== "all" ? "" : " The score is the mean of the numbers beside the queries.";
  return [`Outlined: what a perfect ${id} head would fill (${pattern[id].counts}).`, ...told, mean];
}

/** A pattern's name as a button that outlines its target: for as long as it is pointed at, or until it is chosen again. */
function ghostButton(id) {
  const about = { type: "button", class: "haunts", value: id, title: "Outline what a perfect head would fill" };
  const button = make("button", { ...about, "aria-pressed": String(state.ghost === id) }, id);
  button.addEventListener("click", async () => {
    await change({ ghost: state.ghost === id ? "" : id });
    find("facts").querySelector(`.haunts[value="${id}"]`)?.focus(); // it was painted anew
  });
  return button;
}

for (const [container, names] of [["facts", ".haunts"], ["legend", "button"]]) {
  const nameAt = ({ target }) => {
    const name = (target.closest("tr")?.querySelector(names) ?? target.closest(names))?.value;
    return scored.includes(name) ? name : "";
  };
  find(container).addEventListener("pointerover", (event) => event.pointerType !== "touch" && haunt(nameAt(event)));
  find(container).addEventListener("pointerleave", () => haunt(""));
  find(container).addEventListener("focusin", (event) => event.target.matches(":focus-visible") && haunt(nameAt(event)));
  find(container).addEventListener("focusout", () => haunt(""));
}
