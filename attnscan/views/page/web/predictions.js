// What a live page shows with an answer: what the model predicts, and what was asked before.

const MOST_REMEMBERED = 50;
const MOST_CHANGED = 5;

/** What the model says of hidden words, of classes or in its vectors: as it is, and with what was changed. */
function paintPredictions() {
  const now = JSON.stringify([asker.predictions, asker.id]);
  if (find("predictions").dataset.of === now) return;
  find("predictions").dataset.of = now;
  const changed = state.without || state.positions !== "kept" || state.segments !== "kept";
  const tables = asker.predictions.flatMap((prediction) => (prediction.whyNone ? [make("p", {}, prediction.whyNone)] : saidOf(prediction, changed)));
  find("predictions").replaceChildren(...tables);
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

remember(); // what came with the page is an answer as well
