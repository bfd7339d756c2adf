// The head view over many pairs: what is known of a head, with errors.

const headView = {
  build() {},

  paint() {
    const chosen = chosenHeads();
    find("cards").replaceChildren(...chosen.map((head) => this.card(head)));
  },

  card(head) {
    const mark = make("i", { class: "swatch" });
    mark.style.setProperty("--color", colorsOf(head).color);
    const sure = isUnsure(head) ? make("b", { title: facts.whyUnsure }, "?") : "";
    const title = make("h2", {}, mark, `Head ${head.name} `, make("span", {}, kindOf(head).words, sure));
    const about = [...statementOf(head), sureness(head), alsoCalled(head)];
    return make("article", {}, title, ...about, this.scores(head), ...this.profile(head), ...moreOf(head));
  },

  /** Every pattern's score with its interval, chance, and a bar from chance to the score. */
  scores(head) {
    const names = ["pattern", "score", "95 % interval", "chance", "above chance"];
    const rows = scored.map((id) => {
      const score = scoreOf(head, id);
      const above = aboveChance(head, id);
      const bounds = [cellOf(head, `${id}_low`), cellOf(head, `${id}_high`)];
      const chance = chanceOf(head, id);
      const bar = make("i", { class: "bar" });
      bar.style.setProperty("--color", pattern[id].color);
      bar.style.setProperty("--share", above);
      const numbers = score
        ? [decimals(score), bounds[0] && bounds.map(decimals).join("–"), decimals(chance), above ? decimals(above) : ""]
        : [whyNone(id)];
      const cells = numbers.map((text) => make("td", score ? {} : { colspan: 4, class: "none" }, text));
      const label = id === kindOf(head).id ? "label" : "";
      return make("tr", { class: label }, make("th", { scope: "row" }, id), ...cells, make("td", {}, bar));
    });
    const header = make("tr", {}, ...names.map((name) => make("th", { scope: "col" }, name)), make("td"));
    const caption = make("caption", {}, `Scores by ${facts.titles[reading()].replace("each head", "it")}`);
    return make("table", { class: "scores" }, caption, make("thead", {}, header), make("tbody", {}, ...rows));
  },

  /** What the head's attention is made of and how it falls off with distance, where that is known. */
  profile(head) {
    const [[by, profile] = []] = Object.entries(profiles);
    if (!profile) return [];
    const [explained, even, parts, distances] = profile[head.index];
    const of = by === "carried" ? "what it carries" : "where it looks";
    const rows = parts.map(([name, share, half]) => {
      const bar = make("i", { class: "bar plain" });
      bar.style.setProperty("--share", share);
      const error = half === null ? "" : `± ${half.toFixed(3)}`;
      const cells = [share.toFixed(3), error].map((text) => make("td", {}, text));
      return make("tr", {}, make("th", { scope: "row" }, name), ...cells, make("td", {}, bar));
    });
    const caption = make("caption", {}, `Profile of ${of}: ${explainedBy(explained, even)}`);
    return [make("table", { class: "profile" }, caption, make("tbody", {}, ...rows)), this.distances(distances, of)];
  },

  /** Columns from words before to words after, each with its interval. */
  distances(shares, of) {
    const top = Math.max(0.05, ...shares.map(([share, half]) => (share ?? 0) + (half ?? 0)));
    const columns = shares.map(([share, half], place) => {
      const offset = place - (shares.length - 1) / 2;
      const name = offset > 0 ? `+${offset}` : String(offset);
      const bar = make("i", { class: "column" });
      bar.style.setProperty("--share", (share ?? 0) / top);
      const whisker = make("i", { class: "whisker" });
      whisker.style.setProperty("--from", Math.max(0, (share ?? 0) - (half ?? 0)) / top);
      whisker.style.setProperty("--to", half === null ? (share ?? 0) / top : (share + half) / top);
      const told = share === null ? `${name}: no such word` : `${name}: ${share.toFixed(3)} ± ${(half ?? 0).toFixed(3)}`;
      return make("li", { title: told }, make("span", { class: "drawn" }, bar, whisker), make("small", {}, name));
    });
    const caption = `${of[0].toUpperCase()}${of.slice(1)} by distance in words of its sentence, from 0 to ${top.toFixed(2)}`;
    const list = make("ol", { class: "distances" }, ...columns);
    return make("figure", {}, make("figcaption", {}, caption), list);
  },
};
views.head = headView;

const decimals = (number) => Number(number).toFixed(3);

/** A score's interval, as text; empty where it is not known. */
function intervalOf(head, id) {
  const bounds = ["low", "high"].map((bound) => cellOf(head, `${id}_${bound}`));
  return bounds.every(Boolean) ? bounds.map((bound) => Number(bound).toFixed(2)).join("–") : "";
}

/** What stands for a head in the model view: its letter, its score's interval, and where it looks by distance. */
function faceOf(head, id) {
  const [[, profile] = []] = Object.entries(profiles);
  const letter = [make("b", {}, markOf(head)), " ", make("small", {}, intervalOf(head, id))];
  return profile ? [...letter, distancesOf(profile[head.index][3])] : letter;
}

const COLUMN = 4; // pixels of a small picture

function distancesOf(shares) {
  const canvas = make("canvas", { width: shares.length * COLUMN, height: 16 });
  const context = canvas.getContext("2d");
  context.fillStyle = color("--faint");
  const top = Math.max(0.05, ...shares.map(([share]) => share ?? 0));
  for (const [place, [share]] of shares.entries()) {
    const height = (16 * (share ?? 0)) / top;
    context.fillRect(place * COLUMN, 16 - height, COLUMN - 1, height);
  }
  return canvas;
}
