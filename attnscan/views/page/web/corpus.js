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

  /** Where the head's attention goes, largest share first. */
  profile(head) {
    const [[by, profile] = []] = Object.entries(profiles);
    if (!profile) return [];
    const of = by === "carried" ? "What it carries" : "Where its attention goes";
    const rows = profile[head.index].map(([name, share, half]) => {
      const bar = make("i", { class: "bar plain" });
      bar.style.setProperty("--share", share);
      const error = half === null ? "" : `± ${half.toFixed(3)}`;
      const cells = [share.toFixed(3), error].map((text) => make("td", {}, text));
      return make("tr", {}, make("th", { scope: "row" }, name), ...cells, make("td", {}, bar));
    });
    return [make("table", { class: "profile" }, make("caption", {}, of), make("tbody", {}, ...rows))];
  },
};
views.head = headView;

const decimals = (number) => Number(number).toFixed(3);

/** A score's interval, as text; empty where it is not known. */
function intervalOf(head, id) {
  const bounds = ["low", "high"].map((bound) => cellOf(head, `${id}_${bound}`));
  return bounds.every(Boolean) ? bounds.map((bound) => Number(bound).toFixed(2)).join("–") : "";
}

/** What stands for a head in the model view: its letter and its score's interval. */
function faceOf(head, id) {
  return [make("b", {}, markOf(head)), " ", make("small", {}, intervalOf(head, id))];
}
