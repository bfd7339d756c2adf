// Small helpers and components for elements, canvases and the keyboard. Text is only ever set as text.

const { html, render, useLayoutEffect, useRef } = htmPreact;

const find = (id) => document.getElementById(id);

/** A colour of the style sheet, such as `--ground`, in the theme that is on. */
const color = (name) => getComputedStyle(document.documentElement).getPropertyValue(name).trim();

/** `#rrggbb` as three numbers. */
const channels = (hex) => [1, 3, 5].map((start) => parseInt(hex.slice(start, start + 2), 16));

/** Whether the style sheet has the layout of phones. */
const narrow = () => window.matchMedia("(max-width: 560px)").matches;

/** A canvas that is painted anew when one of the values `of` has changed. */
function Canvas({ paint, of, ...attributes }) {
  const canvas = useRef();
  useLayoutEffect(() => paint(canvas.current), of);
  return html`<canvas ref=${canvas} ...${attributes} />`;
}

/** Size a canvas in CSS pixels and sharpen it for the screen. */
function sized(canvas, width, height) {
  const most = 16000 / Math.max(width, height, 1); // browsers draw no longer side
  const scale = Math.min(window.devicePixelRatio || 1, most);
  canvas.width = Math.max(1, Math.round(width * scale));
  canvas.height = Math.max(1, Math.round(height * scale));
  canvas.style.width = `${width}px`;
  canvas.style.height = `${height}px`;
  const context = canvas.getContext("2d", { willReadFrequently: true });
  context.scale(canvas.width / width, canvas.height / height);
  return context;
}

/** Numbers as pixels, by their square root, so that small ones are seen; those below zero in another colour. */
function paintSquares(canvas, rows, columns, numberOf, above, below = above) {
  canvas.width = columns.length;
  canvas.height = rows.length;
  if (!rows.length || !columns.length) return; // an input without words
  const context = canvas.getContext("2d", { willReadFrequently: true });
  const image = context.createImageData(columns.length, rows.length);
  const [ink, inkBelow] = [channels(above), channels(below)];
  let at = 0;
  for (const row of rows) {
    for (const column of columns) {
      const number = numberOf(row, column);
      image.data.set(number < 0 ? inkBelow : ink, at);
      image.data[at + 3] = 255 * Math.sqrt(Math.abs(number));
      at += 4;
    }
  }
  context.putImageData(image, 0, 0);
}

/** The names of classes that are on. */
const classNames = (classes) => Object.keys(classes).filter((name) => classes[name]).join(" ");

const STEPS = { ArrowLeft: [-1, 0], ArrowRight: [1, 0], ArrowUp: [0, -1], ArrowDown: [0, 1] };
const hasModifier = (event) => event.altKey || event.ctrlKey || event.metaKey;

/** The item to which an arrow, Home or End leads; undefined for other keys. */
function itemBeside(event, items) {
  const at = items.indexOf(event.target.closest("button"));
  if (at < 0 || hasModifier(event)) return undefined;
  if (event.key === "Home") return items[0];
  if (event.key === "End") return items.at(-1);
  const step = STEPS[event.key];
  if (!step) return undefined;
  const { bottom } = items[0].getBoundingClientRect();
  const below = items.findIndex((item) => item.getBoundingClientRect().top >= bottom - 1);
  const way = getComputedStyle(event.currentTarget).direction === "rtl" ? -step[0] : step[0];
  return items[at + way + step[1] * (below < 0 ? items.length : below)] ?? items[at];
}

/** One item takes part in the tab order: the one that has the focus, else the chosen one, else the first. */
function rove(items) {
  const chosen = "[aria-checked=true], [aria-selected=true], [aria-pressed=true], [aria-current]";
  const current = items.find((item) => item === document.activeElement) ?? items.find((item) => item.matches(chosen));
  for (const item of items) item.tabIndex = item === (current ?? items[0]) ? 0 : -1;
}

/** Buttons among which the arrow keys move the focus; `onMove` is told of the one that has it then. */
function Group({ tag = "div", onMove, children, ...attributes }) {
  const group = useRef();
  const items = () => [...group.current.querySelectorAll("button:enabled")];
  useLayoutEffect(() => rove(items()));
  const onKeyDown = (event) => {
    const item = itemBeside(event, items());
    if (!item) return;
    event.preventDefault();
    item.focus();
    rove(items());
    onMove?.(item, event);
  };
  return html`<${tag} ref=${group} onKeyDown=${onKeyDown} ...${attributes}>${children}<//>`;
}

/** Radio buttons for a name of the state; each choice is its value, text, title, and why it is not there. */
function Switch({ name, title, choices, onChoose = (value) => change({ [name]: value }) }) {
  return html`<span class="field" id="${name}-field">
    <span class="name" id="${name}-name">${title}</span>
    <${Group} id=${name} class="segmented" role="radiogroup" aria-labelledby="${name}-name"
      onMove=${(button) => button.click()}>
      ${choices.map(
        ([value, text, about, whyNot]) => html`<button type="button" role="radio" value=${value}
          disabled=${Boolean(whyNot)} title=${whyNot ? `Not here: ${whyNot}` : about}
          aria-checked=${state[name] === value} onClick=${() => onChoose(value)}>${text}</button>`,
      )}
    <//>
  </span>`;
}

/** A list to choose from for a name of the state; each option is its value and text. */
function Select({ name, title, options, onChoose = (value) => change({ [name]: value }), ...attributes }) {
  return html`<label class="field"><span class="name">${title}</span>
    <select id=${name} value=${state[name]} onChange=${(event) => onChoose(event.target.value)} ...${attributes}>
      ${options.map(([value, text]) => html`<option key=${value} value=${value}>${text}</option>`)}
    </select>
  </label>`;
}

const Bar = ({ share, color = "var(--faint)" }) =>
  html`<i class="bar" style=${{ "--share": share, "--color": color }} />`;

const Swatch = ({ color }) => html`<i class="swatch" style=${{ "--color": color }} />`;

/** A token's place in its text: of cross attention, the target's are counted from 0 as well. */
const placeOf = (index) => (index < SOURCE ? index : index - SOURCE);

/** What a token is called beside its text. */
const tokenName = (index) => `${SOURCE ? (index < SOURCE ? "source " : "target ") : ""}token ${placeOf(index)}`;

const RIGHT_TO_LEFT = /[\p{sc=Arab}\p{sc=Hebr}\p{sc=Nkoo}\p{sc=Syrc}\p{sc=Thaa}]/gu;

/** The direction of the text, that of most letters of words. */
function direction() {
  const letters = facts.tokens.filter((_, index) => !facts.special[index]).join("").match(/\p{L}/gu) ?? [];
  return 2 * letters.filter((letter) => letter.match(RIGHT_TO_LEFT)).length > letters.length ? "rtl" : "ltr";
}

/** A token by its text and place; the text's direction stays its own. */
const named = (index) => html`<bdi>${facts.tokens[index]}</bdi> (${placeOf(index)})`;

/** A token by its text, and by its place where others have the same text. */
function called(index) {
  const text = facts.tokens[index];
  const isOnly = facts.tokens.indexOf(text) === facts.tokens.lastIndexOf(text);
  return html`<bdi>${text}</bdi>${isOnly ? "" : html`<small> ${placeOf(index)}</small>`}`;
}

/** A number with its sign; a key that the query does not see has none. */
function signed(value, digits) {
  if (Number.isNaN(value)) return "not seen";
  return `${value < 0 ? "−" : "+"}${Math.abs(value).toFixed(digits)}`;
}

/** Have the browser save a text as a file. */
function saveAs(name, text, type) {
  const link = Object.assign(document.createElement("a"), { download: name });
  link.href = URL.createObjectURL(new Blob([text], { type }));
  link.click();
  setTimeout(() => URL.revokeObjectURL(link.href), 60_000);
}
