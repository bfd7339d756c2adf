// Small helpers and components for elements, canvases and the keyboard. Text is only ever set as text.

import { html, useLayoutEffect, useRef } from "./preact.js";

export const find = (id) => document.getElementById(id);

/** A colour of the style sheet, such as `--ground`, in the theme that is on. */
export const styleColor = (name) => getComputedStyle(document.documentElement).getPropertyValue(name).trim();

/** `#rrggbb` as three numbers. */
export const channels = (hex) => [1, 3, 5].map((start) => parseInt(hex.slice(start, start + 2), 16));

/** Whether the style sheet has the layout of phones. */
export const narrow = () => window.matchMedia("(max-width: 560px)").matches;
export const clamped = (value, count) => Math.max(0, Math.min(count - 1, value));

/** A canvas that is painted anew when one of the `values` has changed. */
export function Canvas({ paint, values, ...attributes }) {
  const canvas = useRef();
  useLayoutEffect(() => paint(canvas.current), values);
  return html`<canvas ref=${canvas} ...${attributes} />`;
}

/** Size a canvas in CSS pixels and sharpen it for the screen. */
export function sized(canvas, width, height) {
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
export function paintSquares(canvas, rows, columns, numberOf, above, below = above) {
  canvas.width = columns.length;
  canvas.height = rows.length;
  if (!rows.length || !columns.length) return; // an input without words
  const context = canvas.getContext("2d", { willReadFrequently: true });
  const image = context.createImageData(columns.length, rows.length);
  const ink = channels(above);
  const inkBelow = channels(below);
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
export const classNames = (classes) => Object.keys(classes).filter((name) => classes[name]).join(" ");
export const STEPS = { ArrowLeft: [-1, 0], ArrowRight: [1, 0], ArrowUp: [0, -1], ArrowDown: [0, 1] };
export const hasModifier = (event) => event.altKey || event.ctrlKey || event.metaKey;

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
export function Group({ tag = "div", onMove, children, ...attributes }) {
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

export const Bar = ({ share, color = "var(--faint)" }) =>
  html`<i class="bar" style=${{ "--share": share, "--color": color }} />`;

export const Swatch = ({ color }) => html`<i class="swatch" style=${{ "--color": color }} />`;

/** A number with its sign; a key that the query does not see has none. */
export function signed(value, digits) {
  if (Number.isNaN(value)) return "not seen";
  return `${value < 0 ? "−" : "+"}${Math.abs(value).toFixed(digits)}`;
}

/** Have the browser save a text as a file. */
export function saveAs(name, text, type) {
  const link = Object.assign(document.createElement("a"), { download: name });
  link.href = URL.createObjectURL(new Blob([text], { type }));
  link.click();
  setTimeout(() => URL.revokeObjectURL(link.href), 60_000);
}
