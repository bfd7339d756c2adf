// What a live page shows beside an answer: what the model predicts, the answer it is compared with, and earlier ones.

const MOST_REMEMBERED = 50;
const MOST_CHANGED = 5;

orders.change = (head) => asker.beside?.changed?.[head.layer][head.head] ?? "";

/** What the model says of hidden words, of classes or in its vectors: as it is, and with what was changed. */
function paintPredictions() {
  find("predictions").classList.toggle("earlier", asker.predictions === null);
  const predictions = asker.predictions ?? [];
  const now = JSON.stringify([predictions, asker.beside?.id, asker.id]);
  if (find("predictions").dataset.of === now || asker.predictions === null) return;
  find("predictions").dataset.of = now;
  const changed = state.without || state.positions !== "kept" || state.segments !== "kept";
  const tables = predictions.flatMap((prediction) => (prediction.whyNone ? [make("p", {}, prediction.whyNone)] : saidOf(prediction, changed)));
  find("predictions").replaceChildren(...tables, ...changes());
}

function saidOf(prediction, changed) {
  if (prediction.kind === "words") return prediction.words.map((word) => wordTable(word, changed));
  if (prediction.kind === "vectors") return changed ? [turnedTable(prediction.turned)] : [];
  const title = prediction.kind === "classes" ? "The class" : "Does B follow A?";
  return [sharesTable(title, prediction.classes.map(({ name, before, after }) => [name, before, after]), changed)];
}

/** The likeliest words in a hidden place, and the one that stands there. */
function wordTable({ place, truth, truthBefore, truthAfter, before, after }, changed) {
  const [was, is] = [new Map(before), new Map(after)];
  const names = [...new Set([...is.keys(), ...(changed ? was.keys() : [])])].filter((name) => name !== truth);
  const rows = names.map((name) => [name, was.get(name), is.get(name)]);
  rows.push([truth, truthBefore, truthAfter]);
  rows.sort((a, b) => (b[2] ?? 0) - (a[2] ?? 0));
  return sharesTable(["In place of ", make("b", {}, make("bdi", {}, truth)), ` (${place})`], rows, changed, truth);
}

function sharesTable(title, rows, changed, truth) {
  const head = changed ? [make("thead", {}, make("tr", {}, ...["", "before", "now"].map((name) => make("th", { scope: "col" }, name))))] : [];
  const lines = rows.map(([name, before, after]) => {
    const cells = (changed ? [before, after] : [after]).map((share) => shareCell(share));
    return make("tr", { class: name === truth ? "truth" : "" }, make("th", { scope: "row" }, make("bdi", {}, name)), ...cells);
  });
  return make("table", {}, make("caption", {}, ...[title].flat()), ...head, make("tbody", {}, ...lines));
}

function shareCell(share) {
  const cell = make("td", { class: "shift" }, share === undefined ? "" : share.toFixed(3));
  cell.style.setProperty("--share", share ?? 0);
  return cell;
}

/** Which tokens' vectors the change has turned most. */
function turnedTable(turned) {
  const most = turned.map((by, place) => [place, by]).sort((a, b) => b[1] - a[1]).slice(0, MOST_CHANGED);
  const rows = most.map(([place, by]) => make("tr", {}, make("th", { scope: "row" }, ...named(place)), make("td", {}, by.toFixed(3))));
  return make("table", {}, make("caption", {}, "Vectors turned by the change (1 − cosine)"), make("tbody", {}, ...rows));
}

/** Which heads are furthest from the answer beside, each a way to it. */
function changes() {
  const { beside } = asker;
  if (!beside) return [];
  if (!beside.changed) return [make("p", {}, beside.why)];
  const most = [...heads].sort((a, b) => orders.change(b) - orders.change(a)).slice(0, MOST_CHANGED);
  const links = most.map((head) => {
    const link = make("a", { href: `#${head.name}` }, `${head.name} ${orders.change(head).toFixed(2)}`);
    link.addEventListener("click", (event) => {
      event.preventDefault();
      change({ view: "head", heads: head.name, several: "", off: "" });
    });
    return [" ", link];
  });
  const about = "Half the sum of what weights differ by, a row, on average";
  return [make("p", { title: about }, "Furthest from what is beside:", ...links.flat())];
}

/** The same head of the answer beside, and what the two differ by. */
async function paintOthers(view) {
  const [pane, { beside }, input] = [find("others"), asker, inputs];
  if (!beside || !view.heads) return pane.replaceChildren();
  const both = await Promise.all(view.heads.map(async (head) => [head, await numbersBeside(beside, head)]));
  if (input !== inputs || beside !== asker.beside) return;
  const place = new Map(beside.aligned);
  const [queries, keys] = [view.queries, view.keys].map((places) => places.filter((token) => place.has(token)));
  const room = figureRoom(both.length * headView.figures());
  const figures = both.flatMap(([head, numbers], position) => {
    const own = view.weights[position];
    if (!own || !numbers || !queries.length || !keys.length) return [];
    const there = (query, key) => numbers[place.get(query) * beside.facts.tokens.length + place.get(key)];
    const apart = (query, key) => own[query * LENGTH + key] - there(query, key);
    const read = (cell) => view.say(cell && differenceLine(cell, head, there(cell.query, cell.key), apart(cell.query, cell.key)));
    return [
      matrixOf(head, ", beside", queries, keys, room, there, [colorsOf(head).color], read),
      matrixOf(head, ", difference", queries, keys, room, apart, [color("--above"), color("--below")], read),
    ];
  });
  refill(pane, ...figures);
}

/** A head's numbers in the answer beside, by the reading that is shown; null if it has no such head. */
async function numbersBeside(beside, head) {
  beside.numbers ??= new Map();
  if (!beside.numbers.has(head.name)) beside.numbers.set(head.name, request(`numbers/${beside.id}/${head.name}`));
  const { status, body } = await beside.numbers.get(head.name);
  if (status !== 200) return null;
  const carried = body.texts[`carried-${head.name}`];
  if (ofCarried(reading()) && !carried) return null;
  const weights = joined(await unpackedBytes(body.texts[`weights-${head.name}`]));
  const rows = ofCarried(reading()) ? carriedRows(weights, joined(await unpackedBytes(carried)), beside.facts) : weights;
  return numbersIn(rows, reading(), beside.facts);
}

const differenceLine = ({ query, key }, head, there, apart) => [
  ...named(query),
  " → ",
  ...named(key),
  ` ${(there + apart).toFixed(DIGITS)}, beside ${there.toFixed(DIGITS)}: ${signed(apart, DIGITS)} in head ${head.name}`,
];

/** Keep what was asked, so that it can be come back to, linked and opened elsewhere. */
function remember() {
  const told = JSON.parse(asker.shown);
  const list = find("past").querySelector("ol");
  const changes = [
    told.hidden.length ? `hidden: ${told.hidden.map((place) => asker.words[place]).join(", ")}` : "",
    told.positions === "kept" ? "" : "positions shuffled",
    told.segments === "kept" ? "" : `segments ${told.segments}`,
    told.off.length ? `${told.off.length > 3 ? `${told.off.length} heads` : told.off.join(", ")} off` : "",
  ].filter(Boolean);
  const text = [told.a, told.b].filter(Boolean).join(" | ");
  const said = { a: told.a, b: told.b ?? "", hidden: told.hidden.join(","), without: told.off.join(",") };
  const href = address({ ...state, ...said, positions: told.positions, segments: told.segments });
  const link = make("a", { href, title: text, "data-asked": asker.shown }, text, changes.length ? make("small", {}, ` ${changes.join("; ")}`) : "");
  for (const old of [...list.children]) if (old.firstChild.dataset.asked === asker.shown) old.remove();
  list.prepend(make("li", {}, link));
  while (list.children.length > MOST_REMEMBERED) list.lastChild.remove();
}

headView.companions.push(paintOthers);
headView.figures = () => (asker.beside ? 3 : 1); // its own, that of the answer beside, and their difference
