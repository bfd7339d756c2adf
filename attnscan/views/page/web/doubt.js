// Doubt in motion: the map runs through maps of resampled words or pairs, which the page holds. Unsure letters change.

const A_MAP = 400; // milliseconds: fewer than three changes a second
const still = window.matchMedia("(prefers-reduced-motion: reduce)");
const doubt = { on: false, key: "", map: 0, timer: 0 }; // the key that is held, by its place on the keyboard

/** What an unsure head does in each resampled map. */
const drawnOf = (head) => (packed.drawn[reading()]?.[head.index] ?? []).map((place) => kindNamed[packed.kinds[place]]);

/** Where a head's letter stands: in its cell of the model view, if letters are shown there, and in the small map. */
function letterPlaces(head) {
  const [cell, tile] = [views.model.cells[head.index], find("picker").querySelector(`[value="${head.name}"]`)];
  const letter = OF_PAIRS ? cell.querySelector(".face b") : state.order === "place" && cell.querySelector(".caption > span");
  return [{ button: cell, letter }, { button: tile, letter: tile }];
}

/** Show the next map; where motion is not wanted, letters as faint as they are unsure. */
function paintMap() {
  document.documentElement.dataset.map = doubt.map;
  for (const head of heads) {
    const drawn = drawnOf(head);
    const kind = drawn.length ? drawn[doubt.map % drawn.length] : kindOf(head);
    const same = drawn.length ? drawn.filter(({ id }) => id === kindOf(head).id).length / drawn.length : 1;
    for (const { button, letter } of letterPlaces(head)) {
      if (still.matches) {
        if (letter) setVariable(letter, "opacity", 0.3 + 0.7 * same);
        continue;
      }
      if (!drawn.length) continue;
      if (letter) setText(letter, `${kind.letter}?`);
      if (button !== letter || chosenHeads().length === 1) {
        setVariable(button, "--color", kind.color);
        setVariable(button, "--ink", kind.ink);
      }
    }
  }
}

/** Begin or end to run through the maps, as the button and the key say. */
function followDoubt() {
  const wanted = doubt.on || doubt.key !== "";
  setAttribute(find("doubt"), "aria-pressed", String(wanted));
  if (wanted === Boolean(doubt.timer)) return;
  clearInterval(doubt.timer);
  doubt.timer = 0;
  if (!wanted) {
    delete document.documentElement.dataset.map;
    for (const { letter } of heads.flatMap(letterPlaces)) if (letter) letter.style.removeProperty("opacity");
    views.model.painted = null;
    return show();
  }
  doubt.map = 0;
  paintMap();
  doubt.timer = setInterval(() => {
    doubt.map += 1;
    paintMap();
  }, A_MAP);
}

const isTyped = ({ target }) => target.matches("textarea, input:not([type='range']), select");

find("doubt").addEventListener("click", () => {
  doubt.on = !doubt.on;
  followDoubt();
});
document.addEventListener("keydown", (event) => {
  if (event.key !== "?" || event.repeat || isTyped(event) || find("doubt").hidden) return;
  doubt.key = event.code || event.key;
  followDoubt();
});
document.addEventListener("keyup", (event) => {
  if (doubt.key !== (event.code || event.key)) return;
  doubt.key = "";
  followDoubt();
});
window.addEventListener("blur", () => {
  doubt.key = "";
  followDoubt();
});
onShow.push(() => {
  find("doubt").hidden = !heads.some((head) => drawnOf(head).length);
});
