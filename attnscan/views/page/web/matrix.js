// Beside the lines, the same numbers as squares: queries downwards, keys across, one matrix a head.

const WIDEST_CELL = 20; // CSS pixels
const LABELLED_CELL = 12; // from here on, rows and columns have names
const NAMES_BESIDE = 72;

/** Fill the pane with the heads' matrices; `read` is told of each cell that is pointed at, and of none with null. */
function paintMatrices(pane, heads, weights, small, queries, keys, read) {
  const there = heads.map((head, position) => ({ head, numbers: weights[position] }));
  if (pane.hidden) return pane.replaceChildren();
  const room = Math.max(120, (there.length > 1 && pane.clientWidth > 500 ? pane.clientWidth / 2 : pane.clientWidth) - 20);
  pane.replaceChildren(
    ...there.map(({ head, numbers }) =>
      numbers
        ? matrixOf(head, "", queries, keys, room, (query, key) => numbers[query * LENGTH + key], [colorsOf(head).color], (cell) =>
            read(cell && { ...cell, weight: numbers[cell.query * LENGTH + cell.key], head }),
          )
        : thumbnailOf(head, small, room - NAMES_BESIDE),
    ),
  );
}

/**
 * Squares of `numberOf(query, key)`: by its square root, as thumbnails show it, so that small ones are seen, in the
 * first of `colors`, below zero in the second; `read` is told of the one that is pointed at.
 */
function matrixOf(head, of, queries, keys, room, numberOf, colors, read, tokens = facts.tokens) {
  const caption = `Head ${head.name}${of}`;
  let cell = Math.min(WIDEST_CELL, Math.floor((room - NAMES_BESIDE) / keys.length));
  const labelled = cell >= LABELLED_CELL;
  if (!labelled) cell = Math.min(LABELLED_CELL, room / keys.length);
  const canvas = make("canvas", { width: keys.length, height: queries.length, tabindex: "0", role: "img" });
  canvas.setAttribute("aria-label", `Matrix: ${caption}; arrow keys read it cell by cell`);
  canvas.style.width = `${cell * keys.length}px`;
  canvas.style.height = `${cell * queries.length}px`;
  paintSquares(canvas, queries, keys, numberOf, colors);
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
  canvas.addEventListener("keydown", (event) => {
    const step = STEPS[event.key];
    if (!step || event.altKey || event.ctrlKey || event.metaKey) return;
    event.preventDefault();
    go(at.row + step[1], at.column + step[0]);
  });
  const squares = make("div", { class: "squares" }, canvas, spot);
  const figure = make("figure", { class: labelled ? "matrix labelled" : "matrix" }, make("figcaption", {}, caption), squares);
  figure.style.setProperty("--cell", `${cell}px`);
  if (labelled) figure.append(sideOf("across", keys, tokens), sideOf("down", queries, tokens));
  figure.shows = { layer: head.layer, queries, keys, cell, at };
  paintGhost(figure);
  paintLinks(figure);
  return figure;
}

/** In place of a head's matrix, what the page has of every head. */
function thumbnailOf(head, small, room) {
  const canvas = make("canvas", { role: "img", "aria-label": `Thumbnail of head ${head.name}` });
  paintThumbnail(canvas, head, small);
  canvas.style.width = canvas.style.height = `${Math.min(room, 320)}px`;
  const caption = make("figcaption", {}, `Head ${head.name}, thumbnail`);
  return make("figure", { class: "matrix" }, caption, make("div", { class: "squares" }, canvas));
}

/** A head made small, in the colour that it has: the cells that begin in the sentences that are chosen. */
function paintThumbnail(canvas, head, small) {
  const side = facts.sides[reading()];
  const tokens = [...facts.tokens.keys()].filter((index) => !(amongWords(reading()) && facts.special[index]));
  const cells = Array.from({ length: side }, (_, cell) => cell);
  const first = (cell) => tokens[Math.floor(cell * (tokens.length / side))];
  const [rows, columns] = ["q", "k"].map((of) => cells.filter((cell) => isAsked(first(cell), of)));
  canvas.width = columns.length;
  canvas.height = rows.length;
  if (!rows.length || !columns.length) return; // an input without words
  const context = canvas.getContext("2d");
  const image = context.createImageData(columns.length, rows.length);
  const shade = channels(state.view === "model" ? kindOf(head).color : colorsOf(head).color);
  const start = head.index * side * side;
  let at = 0;
  for (const row of rows) {
    for (const column of columns) {
      image.data.set(shade, at);
      image.data[at + 3] = small[start + row * side + column];
      at += 4;
    }
  }
  context.putImageData(image, 0, 0);
}

function paintSquares(canvas, queries, keys, numberOf, colors) {
  const context = canvas.getContext("2d");
  const image = context.createImageData(keys.length, queries.length);
  const [above, below = above] = colors.map(channels);
  const { data } = image;
  let at = 0;
  for (const query of queries) {
    for (const key of keys) {
      const number = numberOf(query, key);
      const shade = number < 0 ? below : above;
      data[at++] = shade[0];
      data[at++] = shade[1];
      data[at++] = shade[2];
      data[at++] = 255 * Math.sqrt(Math.abs(number)); // rounded by the array
    }
  }
  context.putImageData(image, 0, 0);
}

function sideOf(name, places, tokens) {
  return make("div", { class: name, "aria-hidden": "true" }, ...places.map((index) => make("bdi", {}, tokens[index])));
}

const clamped = (value, count) => Math.max(0, Math.min(count - 1, value));
