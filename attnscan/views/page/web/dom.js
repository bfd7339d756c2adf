// Small helpers for elements, canvases and the keyboard. Text is only ever set as text.

const find = (id) => document.getElementById(id);

/** An element with attributes and children; a child that is a string becomes text. */
function make(tag, attributes = {}, ...children) {
  const element = document.createElement(tag);
  for (const [name, value] of Object.entries(attributes)) {
    if (value === true) element.setAttribute(name, "");
    else if (value !== false && value !== null) element.setAttribute(name, value);
  }
  element.append(...children);
  return element;
}

// What is as it should be already is left alone: every change makes the browser lay the page out anew.

function setText(element, text) {
  if (element.textContent !== text) element.textContent = text;
}

function setAttribute(element, name, value) {
  if (element.getAttribute(name) !== value) element.setAttribute(name, value);
}

function setVariable(element, name, value) {
  if (element.style.getPropertyValue(name) !== String(value)) element.style.setProperty(name, value);
}

const LARGEST_CANVAS = 16000; // no browser draws on a longer side

/** Size a canvas in CSS pixels and sharpen it for the screen, as far as browsers allow. */
function sized(canvas, width, height) {
  const scale = Math.min(window.devicePixelRatio || 1, LARGEST_CANVAS / Math.max(width, height, 1));
  canvas.width = Math.max(1, Math.round(width * scale));
  canvas.height = Math.max(1, Math.round(height * scale));
  canvas.style.width = `${width}px`;
  canvas.style.height = `${height}px`;
  const context = canvas.getContext("2d", { willReadFrequently: true });
  context.setTransform(canvas.width / width, 0, 0, canvas.height / height, 0, 0);
  return context;
}

/** A colour of the style sheet, such as `--ground`, in the theme that is on. */
function color(name) {
  return getComputedStyle(document.documentElement).getPropertyValue(name).trim();
}

/** `#rrggbb` as three numbers. */
function channels(hex) {
  return [1, 3, 5].map((start) => parseInt(hex.slice(start, start + 2), 16));
}

/** Whether the style sheet has the layout of phones. */
const narrow = () => window.matchMedia("(max-width: 560px)").matches;

/** One item of a group takes part in the tab order: `current`, or the first one. */
function rove(items, current) {
  const chosen = items.includes(current) ? current : items[0];
  for (const item of items) setAttribute(item, "tabindex", item === chosen ? "0" : "-1");
}

const STEPS = { ArrowLeft: [-1, 0], ArrowRight: [1, 0], ArrowUp: [0, -1], ArrowDown: [0, 1] };

/** Where an arrow, Home or End leads among `count` items in rows of `columns`; null for other keys. */
function moved(event, index, count, columns, rightToLeft) {
  if (event.key === "Home") return 0;
  if (event.key === "End") return count - 1;
  const step = STEPS[event.key];
  if (!step) return null;
  const next = index + (rightToLeft ? -step[0] : step[0]) + step[1] * columns;
  return next >= 0 && next < count ? next : index;
}

/** Arrows move the focus among the items of a container, in rows of `columns()`, and tell `onMove` of it. */
function steer(container, items, onMove = () => {}, columns = () => 1) {
  container.addEventListener("keydown", (event) => {
    const all = items();
    const index = all.indexOf(event.target.closest("button"));
    if (index < 0 || event.altKey || event.metaKey || event.ctrlKey) return;
    const next = moved(event, index, all.length, columns(), getComputedStyle(container).direction === "rtl");
    if (next === null) return;
    event.preventDefault();
    rove(all, all[next]);
    all[next].focus();
    onMove(all[next], event);
  });
}

/** Buttons of which one is chosen, as radio buttons are; tells `onChoose` its value. */
function segmented(id, onChoose) {
  const buttons = [...find(id).querySelectorAll("button:enabled")];
  for (const button of buttons) button.addEventListener("click", () => onChoose(button.value));
  steer(find(id), () => buttons, (button) => onChoose(button.value));
  return (value) => {
    for (const button of buttons) button.setAttribute("aria-checked", String(button.value === value));
    rove(buttons, buttons.find((button) => button.value === value));
  };
}

/** A token's place in its text: of cross attention, the target's are counted from 0 as well. */
const placeOf = (index) => (index < SOURCE ? index : index - SOURCE);

/** What a token is called beside its text. */
const tokenName = (index) => `${SOURCE ? (index < SOURCE ? "source " : "target ") : ""}token ${placeOf(index)}`;

/** A token by its text and place, as nodes: the text's direction stays its own. */
function named(index) {
  return [make("bdi", {}, facts.tokens[index]), ` (${placeOf(index)})`];
}

/** A token by its text, and by its place where others have the same text. */
function called(index) {
  const text = facts.tokens[index];
  const alike = facts.tokens.indexOf(text) !== facts.tokens.lastIndexOf(text);
  return [make("bdi", {}, text), ...(alike ? [make("small", {}, ` ${placeOf(index)}`)] : [])];
}

/** Which other tokens count as related to one, as words to put into a sentence; nothing if none does. */
function relatedTo(index) {
  const others = facts.related.filter((pair) => pair.includes(index)).map(([a, b]) => (a === index ? b : a));
  return others.length ? [" Related: ", ...others.flatMap((other, i) => [i ? ", " : "", ...named(other)]), "."] : [];
}

/** Fill an element anew; the focus stays on what has the same value or, failing that, the same place. */
function refill(element, ...children) {
  const focused = element.contains(document.activeElement) ? document.activeElement : null;
  const places = () => [...element.querySelectorAll("button, [tabindex]")];
  const place = focused ? places().indexOf(focused) : -1;
  element.replaceChildren(...children);
  if (!focused) return;
  const same = places().find((other) => other === focused || (focused.value && other.value === focused.value));
  (same ?? places()[place])?.focus();
}

/** A number with its sign; a key that the query does not see has none. */
function signed(value, digits) {
  if (Number.isNaN(value)) return "not seen";
  return `${value < 0 ? "−" : "+"}${Math.abs(value).toFixed(digits)}`;
}

/** Show a line of text in an element, or hide the element if there is none. */
function notice(id, text) {
  find(id).textContent = text;
  find(id).hidden = !text;
}

/** Have the browser save a text as a file. */
function saveAs(name, text, type) {
  const link = make("a", { download: name, href: URL.createObjectURL(new Blob([text], { type })) });
  link.click();
  setTimeout(() => URL.revokeObjectURL(link.href), 60_000);
}
