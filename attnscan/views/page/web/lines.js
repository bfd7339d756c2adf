// Lines between two lists of tokens, on a canvas: where they go, how they look, and which one the pointer is at.

/** The lines to draw: { query, key, weight, head, color }. */
function linesOf(heads, weights, queries, keys, from) {
  const lines = [];
  for (const [position, head] of heads.entries()) {
    const numbers = weights[position];
    if (!numbers) continue;
    const { color } = colorsOf(head);
    for (const query of queries) {
      const row = query * LENGTH;
      for (const key of keys) {
        const weight = numbers[row + key];
        if (weight > 0 && weight >= from) lines.push({ query, key, weight, head, color });
      }
    }
  }
  return lines;
}

/** Where each visible token's lines start, relative to the canvas. */
function anchors(list, canvas, horizontal) {
  const origin = canvas.getBoundingClientRect();
  const anchored = new Map();
  const tokens = visible(list);
  const height = tokens[0]?.offsetHeight; // all rows are as high as the first one, below each other
  const top = list.offsetTop - canvas.offsetTop;
  for (const [row, token] of tokens.entries()) {
    if (!horizontal) {
      anchored.set(Number(token.value), (row + 0.5) * height + top);
      continue;
    }
    const box = token.getBoundingClientRect();
    anchored.set(Number(token.value), box.left + box.width / 2 - origin.left);
  }
  return anchored;
}

let drawing = 0;

/**
 * Draw lines: those `inSight`, a window's height from there on, at once, and the others window by window after that, as
 * thousands of long ones take a second; without `inSight`, all at once.
 */
function drawLines(context, lines, width, height, inSight) {
  const mine = ++drawing;
  const step = inSight === null ? height : Math.max(window.innerHeight, 300);
  const [first, end] = inSight === null ? [0, height] : [inSight, inSight + step].map((at) => clamped(Math.round(at), height + 1));
  const bands = [[first, end]];
  for (let start = end; start < height; start += step) bands.push([start, start + step]);
  for (let stop = first; stop > 0; stop -= step) bands.push([stop - step, stop]);
  const next = () => {
    if (mine !== drawing) return; // others are drawn by now
    drawBand(context, lines, width, ...bands.shift());
    if (bands.length) requestAnimationFrame(() => setTimeout(next)); // once what there is has been shown
  };
  next();
}

const DEPTHS_OF_LINES = 32; // lines of one colour and depth are drawn as one path, the deepest last
const MANY_LINES = 4000; // of more, browsers take seconds for those that are wider than a pixel: they are drawn here
const depthOf = ({ weight }) => Math.round(weight * DEPTHS_OF_LINES) / DEPTHS_OF_LINES;
const alphaOf = (depth) => 0.06 + 0.94 * depth;
const widthOf = (depth) => 0.75 + 2.25 * depth;

function drawBand(context, lines, width, start, end) {
  const byDepth = Array.from({ length: DEPTHS_OF_LINES + 1 }, () => []);
  for (const line of lines) {
    if (Math.max(line.y1, line.y2) < start || Math.min(line.y1, line.y2) > end) continue;
    byDepth[Math.round(line.weight * DEPTHS_OF_LINES)].push(line);
  }
  const there = byDepth.flat();
  if (there.length > MANY_LINES) return drawMany(context, there, start, end);
  context.save();
  context.beginPath();
  context.rect(0, start, width, end - start);
  context.clip();
  const paths = new Map();
  for (const line of there) {
    const alike = `${depthOf(line)} ${line.color}`;
    if (!paths.has(alike)) paths.set(alike, { depth: depthOf(line), color: line.color, path: new Path2D() });
    paths.get(alike).path.moveTo(line.x1, line.y1);
    paths.get(alike).path.lineTo(line.x2, line.y2);
  }
  for (const { depth, color, path } of paths.values()) {
    Object.assign(context, { globalAlpha: alphaOf(depth), lineWidth: widthOf(depth), strokeStyle: color });
    context.stroke(path);
  }
  context.restore();
}

/** Draw a band of many lines pixel by pixel, from the last to the first, and leave out those that others hide. */
function drawMany(context, lines, start, end) {
  const { a: scale } = context.getTransform();
  const top = Math.max(0, Math.floor(start * scale));
  const [across, down] = [context.canvas.width, Math.min(context.canvas.height, Math.ceil(end * scale)) - top];
  if (down <= 0) return;
  const image = context.createImageData(across, down);
  const painted = { colors: new Float32Array(3 * across * down), left: new Float32Array(across * down).fill(1) };
  const shades = {};
  for (const line of lines.reverse()) {
    const [x1, y1, x2, y2] = [line.x1 * scale, line.y1 * scale - top, line.x2 * scale, line.y2 * scale - top];
    const isSteep = Math.abs(y2 - y1) > Math.abs(x2 - x1);
    const way = isSteep ? [y1, x1, y2, x2, down, across, across, 1] : [x1, y1, x2, y2, across, down, 1, across];
    const depth = depthOf(line);
    addLine(painted, way, widthOf(depth) * scale, alphaOf(depth), (shades[line.color] ??= channels(line.color)));
  }
  for (let at = 0; at < across * down; at++) {
    const alpha = 1 - painted.left[at];
    for (let part = 0; part < 3; part++) image.data[4 * at + part] = painted.colors[3 * at + part] / (alpha || 1);
    image.data[4 * at + 3] = 1 - alpha > HIDDEN ? 255 * alpha : 255;
  }
  context.putImageData(image, 0, top);
}

const HIDDEN = 0.02; // what is left of a pixel for lines behind
const LOOKS = 12; // at how many places of a line it is seen whether others hide it

/** Lay a line behind what is painted, step by step along the side that it goes farther on. */
function addLine({ colors, left }, [m1, n1, m2, n2, most, beside, stepM, stepN], width, alpha, [red, green, blue]) {
  const slope = (n2 - n1) / (m2 - m1);
  const half = (width * Math.hypot(1, slope)) / 2;
  const first = Math.max(0, Math.round(Math.min(m1, m2)));
  const last = Math.min(most, Math.round(Math.max(m1, m2)));
  let isSeen = false;
  for (let look = 0.5; look < LOOKS && !isSeen; look++) {
    const m = Math.floor(first + ((last - first) * look) / LOOKS);
    isSeen = left[m * stepM + Math.floor(n1 + (m + 0.5 - m1) * slope) * stepN] > HIDDEN;
  }
  if (!isSeen) return;
  for (let m = first; m < last; m++) {
    const middle = n1 + (m + 0.5 - m1) * slope;
    const low = Math.max(0, middle - half);
    const high = Math.min(beside, middle + half);
    for (let n = Math.floor(low); n < high; n++) {
      const at = m * stepM + n * stepN;
      if (left[at] <= HIDDEN) continue;
      const share = left[at] * alpha * (Math.min(n + 1, high) - Math.max(n, low));
      left[at] -= share;
      colors[3 * at] += share * red;
      colors[3 * at + 1] += share * green;
      colors[3 * at + 2] += share * blue;
    }
  }
}

const LINE_THUMBNAIL = 160; // pixels
const DEPTHS = 8; // of lines in a thumbnail, each drawn at once

/** A head made small, as lines from queries on the left to keys on the right. */
function paintLineThumbnail(canvas, head, small, color, { down, across, rows, columns }) {
  canvas.width = canvas.height = LINE_THUMBNAIL;
  const context = canvas.getContext("2d");
  const paths = Array.from({ length: DEPTHS + 1 }, () => new Path2D());
  for (const [y, row] of rows.entries()) {
    for (const [x, column] of columns.entries()) {
      const weight = (small[(head.index * down + row) * across + column] / 255) ** 2;
      const path = paths[Math.round(weight * DEPTHS)];
      path.moveTo(0, ((y + 0.5) * LINE_THUMBNAIL) / rows.length);
      path.lineTo(LINE_THUMBNAIL, ((x + 0.5) * LINE_THUMBNAIL) / columns.length);
    }
  }
  context.strokeStyle = color;
  for (let depth = 1; depth <= DEPTHS; depth++) {
    context.globalAlpha = depth / DEPTHS;
    context.lineWidth = 1 + (2 * depth) / DEPTHS;
    context.stroke(paths[depth]);
  }
}

const NEAR = 5; // CSS pixels

/** The strongest line near a point; null if there is none. */
function lineAt(drawn, x, y) {
  let strongest = null;
  for (const line of drawn) {
    const { x1, y1, x2, y2, weight } = line;
    const [dx, dy] = [x2 - x1, y2 - y1];
    const isNear = Math.abs(dx * (y1 - y) - (x1 - x) * dy) <= NEAR * Math.hypot(dx, dy);
    if (isNear && weight > (strongest?.weight ?? 0)) strongest = line;
  }
  return strongest;
}
