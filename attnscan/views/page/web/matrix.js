// Beside the lines, the same numbers as squares: queries downwards, keys across, one matrix a head.

const WIDEST_CELL = 20; // CSS pixels
const LABELLED_CELL = 10; // from here on, all rows and columns have names
const EVERY = 8; // of smaller ones, every eighth, or every sixteenth, and so on
const NAMES_BESIDE = 72;

/** How wide each of so many figures may be, in CSS pixels: two beside each other, if there is space. */
function figureRoom(count) {
  const width = find("sheets").clientWidth;
  return Math.max(120, (count > 1 && width > 500 ? width / 2 : width) - 20);
}

/** Fill the pane with the heads' matrices; `read` is told of each cell that is pointed at, and of none with null. */
function paintMatrices(pane, heads, weights, small, queries, keys, room, read) {
  const there = heads.map((head, position) => ({ head, numbers: weights[position] }));
  if (pane.hidden) return pane.replaceChildren();
  pane.classList.toggle("many", heads.length > 4);
  refill(
    pane,
    ...there.map(({ head, numbers }) =>
      numbers
        ? matrixOf(head, queries, keys, room, (query, key) => numbers[query * LENGTH + key], squareColor(colorsOf(head)), (cell) =>
            read(cell && { ...cell, weight: numbers[cell.query * LENGTH + cell.key], head }),
          )
        : thumbnailOf(head, small, room - NAMES_BESIDE),
    ),
  );
}

/**
 * Squares of `numberOf(query, key)`: by its square root, as thumbnails show it, so that small ones are seen; `read` is
 * told of the one that is pointed at.
 */
function matrixOf(head, queries, keys, room, numberOf, color, read) {
  const caption = `Head ${head.name}`;
  const cell = Math.min(WIDEST_CELL, (room - NAMES_BESIDE) / keys.length);
  const step = cell >= LABELLED_CELL ? 1 : EVERY * Math.ceil(LABELLED_CELL / cell / EVERY);
  const canvas = make("canvas", { width: keys.length, height: queries.length, tabindex: "0", role: "img" });
  canvas.setAttribute("aria-label", `Matrix: ${caption}; arrow keys read it cell by cell`);
  canvas.style.width = `${cell * keys.length}px`;
  canvas.style.height = `${cell * queries.length}px`;
  paintSquares(canvas, queries, keys, numberOf, color);
  const spot = make("i", { class: "spot", hidden: true });
  spot.style.width = spot.style.height = `${Math.max(cell, 4)}px`;
  const at = { row: 0, column: 0 };
  const go = (row, column) => {
    Object.assign(at, { row: clamped(row, queries.length), column: clamped(column, keys.length) });
    spot.hidden = false;
    spot.style.top = `${at.row * cell}px`;
    spot.style.left = `${at.column * cell}px`;
    read({ query: queries[at.row], key: keys[at.column] });
  };
  const leave = () => {
    spot.hidden = true;
    read(null);
  };
  for (const kind of ["pointermove", "pointerdown"]) {
    canvas.addEventListener(kind, (event) => go(Math.floor(event.offsetY / cell), Math.floor(event.offsetX / cell)));
  }
  canvas.addEventListener("pointerleave", (event) => event.pointerType !== "touch" && leave());
  canvas.addEventListener("focus", () => canvas.matches(":focus-visible") && go(at.row, at.column));
  canvas.addEventListener("blur", leave);
  const askHere = () => ask(queries[at.row], keys[at.column]);
  canvas.addEventListener("click", askHere);
  canvas.addEventListener("keydown", async (event) => {
    if (event.key === "Enter") {
      const place = [...figure.parentElement.children].indexOf(figure);
      await askHere();
      const anew = find("matrices").children[place]; // it was painted anew
      Object.assign(anew.shows.at, at);
      return anew.querySelector("canvas").focus();
    }
    const step = STEPS[event.key];
    if (!step || event.altKey || event.ctrlKey || event.metaKey) return;
    event.preventDefault();
    go(at.row + step[1], at.column + step[0]);
  });
  const squares = make("div", { class: "squares" }, canvas, spot);
  divide(squares, queries, keys);
  const figure = make("figure", { class: "matrix" }, make("figcaption", {}, caption), squares);
  figure.style.setProperty("--cell", `${cell}px`);
  figure.style.setProperty("--label", `${cell * step}px`);
  figure.style.containIntrinsicSize = `${cell * keys.length + NAMES_BESIDE}px ${cell * queries.length + NAMES_BESIDE}px`;
  figure.style.setProperty("--width", `${cell * keys.length}px`);
  figure.style.setProperty("--height", `${cell * queries.length}px`);
  figure.append(sideOf("across", keys, step), sideOf("down", queries, step));
  figure.shows = { layer: head.layer, queries, keys, cell, at };
  outlineGold(figure, queries, keys, cell * keys.length, cell * queries.length);
  paintLink(figure);
  return figure;
}

/** In place of a head's matrix, what the page has of every head. */
function thumbnailOf(head, small, room) {
  const canvas = make("canvas", { role: "img", "aria-label": `Thumbnail of head ${head.name}` });
  const cells = thumbnailCells();
  paintThumbnail(canvas, head, small, squareColor(colorsOf(head)), cells);
  divide(canvas, cells.queries, cells.keys);
  canvas.style.width = `${Math.min(room, 320)}px`;
  canvas.style.aspectRatio = aspectOf(cells);
  const caption = make("figcaption", {}, `Head ${head.name}, thumbnail`);
  return make("figure", { class: "matrix" }, caption, make("div", { class: "squares" }, canvas));
}

/**
 * Which cells of thumbnails begin in the sentences that are chosen, as `rows` and `columns`, and the tokens that are the
 * first of these; thumbnails are `down` cells high and `across` cells wide.
 */
function thumbnailCells() {
  const tokens = [...facts.tokens.keys()].filter((index) => !(amongWords(reading()) && facts.special[index]));
  const [of, ofColumns] = ["q", "k"].map((side) => {
    const own = SOURCE ? tokens.filter((index) => isAsked(index, side)) : tokens;
    const count = Math.min(facts.sides[reading()], own.length);
    const first = (cell) => own[Math.floor(cell * (own.length / count))];
    const cells = Array.from({ length: count }, (_, cell) => cell).filter((cell) => isAsked(first(cell), side));
    return { count, cells, tokens: cells.map(first) };
  });
  const places = { queries: of.tokens, keys: ofColumns.tokens };
  return { down: of.count, across: ofColumns.count, rows: of.cells, columns: ofColumns.cells, ...places };
}

/** How wide thumbnails are for their height: square, but for cross attention between texts of other lengths. */
const aspectOf = ({ rows, columns }) => (SOURCE && rows.length && columns.length ? clampedAspect(columns.length / rows.length) : 1);
const clampedAspect = (aspect) => Math.max(0.4, Math.min(2.5, aspect));

const IN_MEMORY = { willReadFrequently: true }; // of a few pixels, not on the graphics card: that is a round trip for each canvas

/** A head made small, a cell a pixel. */
function paintThumbnail(canvas, head, small, color, { down, across, rows, columns }) {
  if (canvas.width !== columns.length) canvas.width = columns.length; // a canvas that is sized is made anew
  if (canvas.height !== rows.length) canvas.height = rows.length;
  if (!rows.length || !columns.length) return; // an input without words
  const context = canvas.getContext("2d", IN_MEMORY);
  const image = context.createImageData(columns.length, rows.length);
  const [red, green, blue] = channels(color);
  const { data } = image;
  const start = head.index * down * across;
  let at = 0;
  for (const row of rows) {
    for (const column of columns) {
      data[at++] = red;
      data[at++] = green;
      data[at++] = blue;
      data[at++] = small[start + row * across + column];
    }
  }
  context.putImageData(image, 0, 0);
}

/** The colour of a head's squares: in the dark, one that is not a pattern's is lighter, or faint squares are not seen. */
function squareColor({ id, color }) {
  if (theme() !== "dark" || !(id === "none")) return color;
  return `#${channels(color).map((value) => Math.round((value + 255) / 2).toString(16)).join("")}`;
}

/** Have the style sheet draw a line where sentence B begins among queries, downwards, and keys, across. */
function divide(element, queries, keys) {
  for (const [name, places] of [["--down", queries], ["--across", keys]]) {
    const before = segmentsOf(places.map((place) => facts.segments[place])) > 1 ? places.findIndex((place) => facts.segments[place] === 1) : -1;
    if (before > 0) element.style.setProperty(name, `${(100 * before) / places.length}%`);
    else element.style.removeProperty(name);
  }
}

function paintSquares(canvas, queries, keys, numberOf, color) {
  const context = canvas.getContext("2d", IN_MEMORY);
  const image = context.createImageData(keys.length, queries.length);
  const [red, green, blue] = channels(color);
  const { data } = image;
  let at = 0;
  for (const query of queries) {
    for (const key of keys) {
      data[at++] = red;
      data[at++] = green;
      data[at++] = blue;
      data[at++] = 255 * Math.sqrt(numberOf(query, key)); // rounded by the array
    }
  }
  context.putImageData(image, 0, 0);
}

/** The names of every `step`-th row or column. */
function sideOf(name, places, step) {
  const labelled = places.filter((_, at) => at % step === 0 && at <= places.length - Math.min(step, places.length) / 2);
  return make("div", { class: name, "aria-hidden": "true" }, ...labelled.map((index) => make("bdi", {}, facts.tokens[index])));
}

const clamped = (value, count) => Math.max(0, Math.min(count - 1, value));
