// Beside the lines, the same numbers as squares: queries downwards, keys across, one matrix a head.

const WIDEST_CELL = 20; // CSS pixels
const LABELLED_CELL = 12; // from here on, rows and columns have names
const NAMES_BESIDE = 72;

/** Fill the pane with the heads' matrices; `read` is told of each cell that is pointed at, and of none with null. */
function paintMatrices(pane, heads, weights, small, queries, keys, read) {
  const there = heads.map((head, position) => ({ head, numbers: weights[position] }));
  pane.hidden = !there.length || !queries.length || !keys.length;
  if (pane.hidden) return pane.replaceChildren();
  const room = Math.max(120, (there.length > 1 && pane.clientWidth > 500 ? pane.clientWidth / 2 : pane.clientWidth) - 20);
  pane.replaceChildren(
    ...there.map(({ head, numbers }) =>
      numbers
        ? matrixOf(`Head ${head.name}`, queries, keys, room, (query, key) => shadeOf(head, numbers[query * LENGTH + key]), (cell) =>
            read(cell && { ...cell, weight: numbers[cell.query * LENGTH + cell.key], head }),
          )
        : thumbnailOf(head, small, room - NAMES_BESIDE),
    ),
  );
}

/** Squares that `shade` gives colours as [red, green, blue, alpha]; `read` is told of the one that is pointed at. */
function matrixOf(caption, queries, keys, room, shade, read, tokens = facts.tokens) {
  let cell = Math.min(WIDEST_CELL, Math.floor((room - NAMES_BESIDE) / keys.length));
  const labelled = cell >= LABELLED_CELL;
  if (!labelled) cell = Math.min(LABELLED_CELL, room / keys.length);
  const canvas = make("canvas", { width: keys.length, height: queries.length, tabindex: "0", role: "img" });
  canvas.setAttribute("aria-label", `Matrix: ${caption}; arrow keys read it cell by cell`);
  canvas.style.width = `${cell * keys.length}px`;
  canvas.style.height = `${cell * queries.length}px`;
  paintSquares(canvas, queries, keys, shade);
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

/** A head made small, in the colour that it has. */
function paintThumbnail(canvas, head, small) {
  const side = facts.sides[state.by];
  canvas.width = canvas.height = side;
  if (!side) return; // an input without words
  const context = canvas.getContext("2d");
  const image = context.createImageData(side, side);
  const shade = channels(state.view === "model" ? pattern[labelOf(head)].color : colorsOf(head).color);
  const start = head.index * side * side;
  for (let i = 0; i < side * side; i++) {
    image.data.set(shade, 4 * i);
    image.data[4 * i + 3] = small[start + i];
  }
  context.putImageData(image, 0, 0);
}

function paintSquares(canvas, queries, keys, shade) {
  const context = canvas.getContext("2d");
  const image = context.createImageData(keys.length, queries.length);
  let at = 0;
  for (const query of queries) {
    for (const key of keys) {
      image.data.set(shade(query, key), at);
      at += 4;
    }
  }
  context.putImageData(image, 0, 0);
}

/** A number in a head's colour, by its square root, as thumbnails show it, so that small ones are seen. */
const shadeOf = (head, number) => [...channels(colorsOf(head).color), Math.round(255 * Math.sqrt(number))];

function sideOf(name, places, tokens) {
  return make("div", { class: name, "aria-hidden": "true" }, ...places.map((index) => make("bdi", {}, tokens[index])));
}

const clamped = (value, count) => Math.max(0, Math.min(count - 1, value));
