// The model view: every head as a thumbnail of its weights, or of what it carries, in the colour of its label.

function modelView() {
  const small = OF_PAIRS ? null : thumbnails();
  if (small === undefined) return undefined;
  const byPlace = state.order === "place";
  const [cells, ranked] = [thumbnailCells(), rankedHeads()];
  const { queries, keys } = cells;
  const aspect = SOURCE && keys.length ? Math.max(0.4, Math.min(2.5, keys.length / queries.length)) : 1;
  const gold = goldOutlines(queries, keys, 168, 168);
  const style = { "--columns": HEADS, "--aspect": aspect, "--gold": gold, ...whereSecondBegins(queries, keys) };
  const axis = (text) => html`<span key="axis ${text}" class="axis" aria-hidden="true">${text}</span>`;
  const thumbnail = (head) => html`<${Thumbnail} key=${head.name} ...${{ head, small, cells }} />`;
  const row = (head) => (head.index % HEADS ? [thumbnail(head)] : [axis(head.layer), thumbnail(head)]);
  const columns = ["", ...Array(HEADS).keys()].map(axis);
  const orders = [["place", "by place"], ...patterns.map(({ id }) => [id, `by ${id}`])];
  return html`
    <div class="toolbar">
      <${Select} name="order" title="Order" options=${orders} />
      <${Legend} />
    </div>
    <p class="hint" id="model-hint">${modelHint()}</p>
    <${Group} id="thumbnails" class=${byPlace ? "by-place" : ""} style=${style}>
      ${byPlace ? [...columns, ...heads.flatMap(row)] : ranked.map(thumbnail)}
    <//>`;
}

/** The heads by place, or by their score for a pattern; those without one come last. */
function rankedHeads() {
  if (state.order === "place") return heads;
  const score = (head) => Number(cellOf(head, state.order) || -1);
  return [...heads].sort((a, b) => score(b) - score(a) || a.index - b.index);
}

/** What the squares and their letters are of, and whether any head does what was asked for. */
function modelHint() {
  const title = facts.titles[reading()];
  const dark = ofCarried(reading()) ? "the head carries from there" : "weight";
  const [down, across] = SOURCE ? ["target words", "source words"] : ["queries", "keys"];
  const unranked = patterns.find(({ id }) => id === state.order && heads.every((head) => cellOf(head, id) === ""));
  const wanted = kindNamed[state.only];
  return [
    `${title[0].toUpperCase()}${title.slice(1)}, by letter and colour; each square is one head`,
    OF_PAIRS
      ? ", with the score of its label and the 95 % interval. Choose one to see what is known of it."
      : `: ${down} downwards, ${across} across, the more colour, the more ${dark}. Choose one to see its lines.`,
    OF_PAIRS ? "" : ` ${goldLine()}`,
    OF_PAIRS || heads.every((head) => holds("weights", head)) ? "" : " Dashed: a thumbnail alone.",
    heads.some(rests) ? " Paler: rests, more than half is on special tokens." : "",
    heads.some((head) => isUnsure(head)) ? ` ?: ${facts.whyUnsure}.` : "",
    unranked ? ` No head has a rank by ${unranked.id}: ${whyNone(unranked)}.` : "",
    wanted && !heads.some((head) => isOf(head, wanted.id)) ? ` No head does this: ${wanted.words}.` : "",
  ].join("");
}

/** Why no head has a score for a pattern. */
function whyNone({ whyNone }) {
  return whyNone ? `not measured: ${whyNone}` : `no word of ${OF_PAIRS ? "these pairs" : "this input"} is eligible`;
}

/** The kinds with how many heads are of each; a click lets one stand out. */
function Legend() {
  const buttons = kindsShown().map(
    ({ id, letter, words, counts, color, count }) => html`<button key=${id} type="button" value=${id} title=${counts}
      aria-pressed=${state.only === id} onClick=${() => change({ only: state.only === id ? "" : id })}>
      <${Swatch} color=${color} />${letter} ${words} <span class="count">${count}</span>
    </button>`,
  );
  return html`<${Group} id="legend" class="legend" role="group" aria-label="Show one kind">${buttons}<//>`;
}

function Thumbnail({ head, small, cells }) {
  const kind = kindOf(head);
  const byPlace = state.order === "place";
  const score = cellOf(head, byPlace ? "share" : state.order);
  const number = score ? Number(score).toFixed(2) : "–";
  const shown = byPlace && !OF_PAIRS ? markOf(head) : number;
  const interval = intervalOf(head, byPlace ? kind.id : state.order);
  const written = [head.name, shown];
  if (OF_PAIRS) written.unshift(markOf(head), narrow() ? shown : interval);
  const doubts = `${isUnsure(head) ? ", not sure" : ""}${rests(head) ? ", rests on special tokens" : ""}`;
  const classes = {
    rests: rests(head),
    none: kind.id === "none",
    absent: !OF_PAIRS && !holds("weights", head),
    dimmed: state.only && !isOf(head, state.only),
    out: isOff(head),
  };
  const face = OF_PAIRS
    ? html`<span class="face"><b>${markOf(head)}</b> <small>${interval}</small></span>`
    : html`<${Squares} class="face" aria-hidden="true" ...${{ head, small, cells }} />`;
  return html`<button type="button" value=${head.name} style=${{ "--color": kind.color }}
    class=${classNames(classes)} aria-current=${head === chosenHeads()[0] ? "true" : null}
    title="${head.name} ${statementOf(head)}${doubts}"
    aria-label="${written.filter(Boolean).join(" ")}, ${kind.words}${doubts}"
    onClick=${(event) => openHead(head.name, event)}>
    ${face} <span class="caption"><b>${head.name}</b> <span>${shown}</span></span>
  </button>`;
}

/** A head made small, a cell a pixel. */
function Squares({ head, small, cells, ...attributes }) {
  const { down, across, rows, columns } = cells;
  const ink = squareColor(kindOf(head));
  const numberOf = (row, column) => (small[(head.index * down + row) * across + column] / 255) ** 2;
  const paint = (canvas) => paintSquares(canvas, rows, columns, numberOf, ink);
  return html`<${Canvas} ...${attributes} paint=${paint} of=${[small, ink, state.pairs]} />`;
}

/** The colour of squares: in the dark, one that is not a kind's is lighter, or faint squares are not seen. */
function squareColor({ id, color }) {
  if (theme() !== "dark" || id !== "none") return color;
  return `#${channels(color).map((value) => Math.round((value + 255) / 2).toString(16)).join("")}`;
}

/**
 * Which cells of thumbnails begin in the sentences that are chosen, as `rows` and `columns`, and the tokens that are
 * the first of these; thumbnails are `down` cells high and `across` cells wide.
 */
function thumbnailCells() {
  const side = (name) => {
    const tokens = [...facts.tokens.keys()].filter((index) => !(amongWords(reading()) && facts.special[index]));
    const own = SOURCE ? tokens.filter((index) => isAsked(index, name)) : tokens;
    const count = Math.min(facts.side ?? 0, own.length);
    const first = (cell) => own[Math.floor(cell * (own.length / count))];
    const cells = Array.from({ length: count }, (_, cell) => cell).filter((cell) => isAsked(first(cell), name));
    return { count, cells, tokens: cells.map(first) };
  };
  const [down, across] = [side("q"), side("k")];
  const places = { queries: down.tokens, keys: across.tokens };
  return { down: down.count, across: across.count, rows: down.cells, columns: across.cells, ...places };
}

/** Where the style sheet draws a line between sentences A and B, among queries downwards and keys across. */
function whereSecondBegins(queries, keys) {
  const share = (places) => {
    const before = places.findIndex((place) => facts.segments[place] === 1);
    return before > 0 && !SOURCE ? `${(100 * before) / places.length}%` : "-9px";
  };
  return { "--down": share(queries), "--across": share(keys) };
}

/** Open a head. From the keyboard, the focus goes on to its first token or, over pairs, to its place on the map. */
async function openHead(name, event) {
  await change({ view: "head", heads: name });
  if (event.detail) return; // a pointer has clicked
  const token = document.querySelector("#queries [tabindex='0']");
  (token ?? document.querySelector(`#picker [value="${name}"]`)).focus();
}
