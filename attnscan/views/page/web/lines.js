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

const MOST_LINES = 2000; // of more, the strongest ones are drawn
const DEPTHS_OF_LINES = 32; // lines of one colour and depth are drawn as one path, the deepest last

/** The strongest lines, as many as are drawn. */
const strongestOf = (lines) => lines.sort((a, b) => b.weight - a.weight).slice(0, MOST_LINES);

function drawLines(context, lines) {
  const paths = new Map();
  for (const line of lines.toReversed()) {
    const depth = Math.round(line.weight * DEPTHS_OF_LINES) / DEPTHS_OF_LINES;
    const alike = `${depth} ${line.color}`;
    if (!paths.has(alike)) paths.set(alike, { depth, color: line.color, path: new Path2D() });
    paths.get(alike).path.moveTo(line.x1, line.y1);
    paths.get(alike).path.lineTo(line.x2, line.y2);
  }
  for (const { depth, color, path } of paths.values()) {
    Object.assign(context, { globalAlpha: 0.06 + 0.94 * depth, lineWidth: 0.75 + 2.25 * depth, strokeStyle: color });
    context.stroke(path);
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
