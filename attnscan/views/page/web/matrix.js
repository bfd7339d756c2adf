// Beside the lines, the same numbers as squares: queries downwards, keys across; gold links; heads ranked by a cell.

const WIDEST_CELL = 20; // CSS pixels
const LABELLED_CELL = 10; // names are at least as far apart
const NAMES_BESIDE = 72;

function Matrix({ head, heads, numbers, small, queries, keys }) {
  if (!queries.length || !keys.length) return null;
  const width = find("app").clientWidth;
  const widest = heads.length > 1 || width < 900 ? Math.min(340, width - 40) : width / 2 - 160;
  const room = Math.max(120, widest) - NAMES_BESIDE;
  if (!numbers) {
    const style = { width: `${Math.min(room, 320)}px`, ...whereSecondBegins(queries, keys) };
    return html`<figure class="matrix"><figcaption>Head ${head.name}, thumbnail</figcaption>
      <div class="squares"><${Squares} ...${{ head, small, style }} cells=${thumbnailCells()} role="img"
        aria-label="Thumbnail of head ${head.name}" /></div></figure>`;
  }
  const cell = Math.min(WIDEST_CELL, room / keys.length);
  const step = Math.ceil(LABELLED_CELL / cell);
  const [across, down] = [keys.length * cell, queries.length * cell];
  const ink = squareColor(colorsOf(head));
  const paint = (canvas) => paintSquares(canvas, queries, keys, (query, key) => numbers[query * LENGTH + key], ink);
  const at = pointed?.head === head.name ? pointed : null;
  const go = (row, column) => {
    const [query, key] = [queries.at(clamped(row, queries.length)), keys.at(clamped(column, keys.length))];
    point({ query, key, head: head.name });
  };
  const move = (event) => go(Math.floor(event.offsetY / cell), Math.floor(event.offsetX / cell));
  const onKeyDown = (event) => {
    const step = STEPS[event.key];
    if (event.key === "Enter" && at) return ask(at);
    if (!step || hasModifier(event)) return;
    event.preventDefault();
    go(queries.indexOf(at?.query ?? queries[0]) + step[1], keys.indexOf(at?.key ?? keys[0]) + step[0]);
  };
  const spot = (name, query, key) => {
    const [row, column] = [queries.indexOf(query), keys.indexOf(key)];
    const size = Math.max(cell, 4);
    const style = { top: `${row * cell}px`, left: `${column * cell}px`, width: `${size}px`, height: `${size}px` };
    return row >= 0 && column >= 0 && html`<i class=${name} style=${style} />`;
  };
  const size = { width: `${across}px`, height: `${down}px`, ...whereSecondBegins(queries, keys) };
  const gold = goldOutlines(queries, keys, across, down);
  const style = { "--gold": gold, "--label": `${cell * step}px`, "--cell": `${cell}px` };
  const name = (index) => html`<bdi>${facts.tokens[index]}</bdi>`;
  const names = (places) => places.filter((_, place) => place % step === 0).map(name);
  return html`<figure class="matrix" style=${style}>
    <figcaption>Head ${head.name}</figcaption>
    <div class="across" aria-hidden="true" style=${{ maxWidth: `${across}px` }}>${names(keys)}</div>
    <div class="down" aria-hidden="true" style=${{ maxHeight: `${down}px` }}>${names(queries)}</div>
    <div class="squares">
      <${Canvas} tabindex="0" role="img" style=${size} paint=${paint} of=${[numbers, ink, queries.join(), keys.join()]}
        aria-label="Matrix: Head ${head.name}; arrow keys read it cell by cell, Enter ranks heads by the cell"
        onPointerMove=${move} onPointerDown=${move}
        onPointerLeave=${(event) => event.pointerType !== "touch" && point(null)}
        onBlur=${() => point(null)} onClick=${() => at && ask(at)} onKeyDown=${onKeyDown} />
      ${at && spot("spot", at.query, at.key)}
      ${state.link && spot("spot ordering", ...state.link.split("-").map(Number))}
    </div>
  </figure>`;
}

const clamped = (value, count) => Math.max(0, Math.min(count - 1, value));

/** Outlines of the cells of gold links, as a picture to lie over squares of this size; `none` where there are none. */
function goldOutlines(queries, keys, width, height) {
  const cells = (facts.gold ?? []).map(([query, key]) => [queries.indexOf(query), keys.indexOf(key)]);
  const shown = cells.filter((cell) => !cell.includes(-1));
  if (!shown.length) return "none";
  const canvas = document.createElement("canvas");
  const context = sized(canvas, width + 4, height + 4); // two pixels around for the lines at its edge
  const [across, down] = [width / keys.length, height / queries.length];
  for (const [ink, lineWidth] of [["--ground", 3], ["--warn", 1.5]]) {
    Object.assign(context, { strokeStyle: color(ink), lineWidth });
    for (const [row, column] of shown) context.strokeRect(2 + column * across, 2 + row * down, across, down);
  }
  return `url(${canvas.toDataURL()})`;
}

/** Where gold links are, or why there are none; nothing where none were asked for. */
function goldLine() {
  if (facts.gold?.length) return "Outlined in orange: gold links. ";
  const { whyNone } = kindNamed.aligned ?? {};
  return whyNone ? `No gold links are outlined: ${whyNone}. ` : "";
}

/** Rank all heads by a link, or none if they are ranked by it already; special tokens link nothing. */
function ask({ query, key }) {
  const link = `${query}-${key}`;
  if (!facts.special[query]) change({ link: state.link === link ? "" : link });
}

/** All heads by their numbers for the link, and the average head's; without those that the page does not hold. */
function Question() {
  const last = useRef(null);
  const numbers = heads.map((head) => numbersOf(head));
  if (numbers.includes(undefined)) return last.current;
  const [query, key] = state.link.split("-").map(Number);
  const known = heads.filter((_, place) => numbers[place]);
  const share = (head) => numbers[head.index][query * LENGTH + key];
  const average = known.reduce((sum, head) => sum + share(head), 0) / known.length;
  const part = known.length < heads.length ? `, of the ${known.length} heads whose weights are on this page` : "";
  const ranked = known.sort((a, b) => share(b) - share(a) || a.index - b.index);
  const names = state.heads.split(",");
  last.current = html`<div id="question" role="group" aria-label="Heads by a link">
    <div class="toolbar">
      <p class="hint" id="ranked-by" aria-live="polite">${called(query)} → ${called(key)}: ranked by
        ${" "}${facts.titles[reading()]}: average head ${average.toFixed(DIGITS)}${part}</p>
      <button type="button" id="clear-link" class="plain" onClick=${() => change({ link: "" })}>Clear</button>
    </div>
    <${Group} tag="ol" id="ranked">
      ${ranked.map((head) => html`<li key=${head.name}>
        <button type="button" value=${head.name} title="${head.name} ${statementOf(head)}"
          aria-pressed=${names.includes(head.name)}
          onClick=${(event) => choose(head.name, event.shiftKey || state.several)}>
          <b>${head.name}</b> ${markOf(head)} ${share(head).toFixed(DIGITS)}</button>
        <${Bar} share=${share(head)} color=${kindOf(head).color} />
      </li>`)}
    <//>
  </div>`;
  return last.current;
}
