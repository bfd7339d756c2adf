// Gold links between the words of two texts: their cells are outlined wherever they are shown.

const GOLD = "aligned"; // the pattern of gold links
const MARGIN = 2; // CSS pixels around a matrix, for the lines at its edge

/** Where gold links are, or why there are none; nothing where none were asked for. */
function goldLine() {
  if (facts.gold.length) return "Outlined in orange: gold links. ";
  return pattern[GOLD]?.whyNone ? `No gold links are outlined: ${pattern[GOLD].whyNone}. ` : "";
}

/** Whether a gold link is between a query and a key. */
const isGold = (query, key) => facts.gold.some(([target, source]) => target === query && source === key);

/** Outline the cells of gold links over an element that shows queries downwards and keys across. */
function outlineGold(element, queries, keys, width, height) {
  const cells = facts.gold.map(([query, key]) => [queries.indexOf(query), keys.indexOf(key)]).filter((at) => !at.includes(-1));
  if (!cells.length) return element.style.removeProperty("--gold");
  const canvas = document.createElement("canvas");
  const context = sized(canvas, width + 2 * MARGIN, height + 2 * MARGIN);
  const [across, down] = [width / keys.length, height / queries.length];
  for (const [ink, thick] of [["--ground", 3], ["--warn", 1.5]]) {
    Object.assign(context, { strokeStyle: color(ink), lineWidth: thick });
    for (const [row, column] of cells) context.strokeRect(MARGIN + column * across, MARGIN + row * down, across, down);
  }
  return setVariable(element, "--gold", `url(${canvas.toDataURL()})`);
}
