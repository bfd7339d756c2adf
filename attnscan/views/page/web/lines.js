// Lines between two lists of tokens, on a canvas: where they go, how they look, and which one the pointer is at.

/** The lines to draw, strongest last: { query, key, weight, head, color }. */
function linesOf(heads, weights, queries, keys, from) {
  const lines = [];
  for (const [position, head] of heads.entries()) {
    if (!weights[position]) continue;
    const { color } = colorsOf(head);
    for (const query of queries) {
      for (const key of keys) {
        const weight = weights[position][query * LENGTH + key];
        if (weight > 0 && weight >= from) lines.push({ query, key, weight, head, color });
      }
    }
  }
  return lines.sort((a, b) => a.weight - b.weight);
}

/** Where each visible token's lines start, relative to the canvas. */
function anchors(list, canvas, horizontal) {
  const origin = canvas.getBoundingClientRect();
  const found = new Map();
  const tokens = [...list.children].filter((token) => !token.hidden);
  const height = tokens[0]?.offsetHeight; // all rows are as high as the first one, below each other
  for (const [row, token] of tokens.entries()) {
    if (!horizontal) {
      found.set(Number(token.value), (row + 0.5) * height + list.offsetTop - canvas.offsetTop);
      continue;
    }
    const box = token.getBoundingClientRect();
    found.set(Number(token.value), box.left + box.width / 2 - origin.left);
  }
  return found;
}

/** Draw lines, each between the ends that `ends` gives for it, and remember where they are. */
function drawLines(context, lines, ends) {
  return lines.map((line) => {
    const [x1, y1, x2, y2] = ends(line);
    context.globalAlpha = 0.06 + 0.94 * line.weight;
    context.lineWidth = 0.75 + 2.25 * line.weight;
    context.strokeStyle = line.color;
    context.beginPath();
    context.moveTo(x1, y1);
    context.lineTo(x2, y2);
    context.stroke();
    return { ...line, x1, y1, x2, y2 };
  });
}

const NEAR = 5; // CSS pixels

/** The strongest line near a point; null if there is none. */
function lineAt(drawn, x, y) {
  for (let i = drawn.length - 1; i >= 0; i--) {
    const { x1, y1, x2, y2 } = drawn[i];
    const [dx, dy] = [x2 - x1, y2 - y1];
    if (Math.abs(dx * (y1 - y) - (x1 - x) * dy) <= NEAR * Math.hypot(dx, dy)) return drawn[i];
  }
  return null;
}
