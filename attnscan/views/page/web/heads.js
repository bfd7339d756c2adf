// Beside the head and neuron views: a small map to choose heads from, and what is known of the chosen one.

/** What a colour means: with one head its label, with several the head. As { color, ink }, ink for text on it. */
function colorsOf(head) {
  const chosen = chosenHeads();
  if (chosen.length === 1) return kindOf(head);
  const [color, ink] = facts.headColors[chosen.indexOf(head) % facts.headColors.length];
  return { color, ink };
}

/** The heads that a text names, by names and whole layers, each once; and what it has beside these. */
function headsIn(text) {
  const words = text.split(/[\s,]+/).filter(Boolean);
  const layerOf = (word) => word.replace(/^layer:(?=\d)/, `layer:${facts.letter}`);
  const calledBy = (word) => heads.filter(({ name, layer }) => word === name || layerOf(word) === `layer:${layer}`);
  return { known: [...new Set(words.flatMap(calledBy))], unknown: words.filter((word) => !calledBy(word).length) };
}

const noSuchHead = (unknown) =>
  `there is no head ${unknown.join(", ")}: ${facts.letter ? `${facts.attention} attention` : "this model"} has ` +
  `${LAYERS} layers of ${HEADS} heads, counted from ${heads[0].name}`;

/** Whether a live page has switched a head off. */
const isOff = (head) => Boolean(live) && state.without.split(",").includes(head.name);

let unknownHeads = ""; // what was written and names no head

function writeHeads(text) {
  const { known, unknown } = headsIn(text);
  unknownHeads = unknown.length ? noSuchHead(unknown) : "";
  if (unknownHeads || !known.length) return draw();
  return change({ heads: known.map(({ name }) => name).join(","), several: known.length > 1 ? "yes" : "" });
}

/** Show a head, or with `also` show it beside the others, or not any more. */
function choose(name, also) {
  unknownHeads = "";
  if (!also || state.view === "neuron") return change({ heads: name, several: "" });
  const names = state.heads.split(",");
  const rest = names.filter((other) => other !== name);
  const next = rest.length < names.length && rest.length ? rest : [...rest, name];
  return change({ heads: next.join(","), several: "yes" });
}

function Aside() {
  const [chosen, isNeuron] = [chosenHeads(), state.view === "neuron"];
  const turnSeveral = () => change(state.several ? { several: "", heads: chosen[0].name } : { several: "yes" });
  return html`<aside>
    <div id="choosing">
      <label for="heads">Heads</label>
      <input id="heads" type="text" size="8" spellcheck="false" autocomplete="off"
        value=${state.heads.replaceAll(",", ", ")} onChange=${(event) => writeHeads(event.target.value)} />
      ${!isNeuron && html`<button type="button" id="several" class="plain"
        title="Choose several heads, one a click or a tap" aria-pressed=${state.several !== ""}
        onClick=${turnSeveral}>Several</button>`}
    </div>
    <${Picker} chosen=${isNeuron ? chosen.slice(0, 1) : chosen} />
    ${unknownHeads && html`<p class="notice" id="unknown-heads" role="alert">${unknownHeads}</p>`}
    ${live && html`<${SwitchOff} />`}
    ${!OF_PAIRS && html`<div id="facts">
      ${chosen.map((head) => html`<${Card} key=${head.name} head=${head} isBrief=${chosen.length > 1} />`)}
    </div>`}
  </aside>`;
}

/** A button for each layer and head. */
function Picker({ chosen }) {
  const several = chosen.length > 1;
  const layer = (head) => {
    const names = heads.filter((other) => other.layer === head.layer).map(({ name }) => name);
    const about = `All heads of layer ${head.layer}`;
    return html`<button key="layer ${head.layer}" type="button" class="layer" title=${about} aria-label=${about}
      onClick=${() => change({ heads: names.join(","), several: "yes" })}>${head.layer}</button>`;
  };
  const button = (head) => {
    const [isChosen, kind] = [chosen.includes(head), kindOf(head)];
    const { color, ink } = several && isChosen ? colorsOf(head) : kind;
    const about = `${head.name}, ${kind.words}${isUnsure(head) ? ", not sure" : ""}`;
    const isAbsent = !OF_PAIRS && !holds("weights", head);
    return html`<button key=${head.name} type="button" value=${head.name} aria-pressed=${isChosen} title=${about}
      aria-label="${markOf(head)} ${about}" style=${{ "--color": color, "--ink": ink }}
      class="${isAbsent ? "absent" : ""} ${isOff(head) ? "out" : ""} ${kind.id === "none" ? "none" : ""}"
      onClick=${(event) => choose(head.name, event.shiftKey || event.ctrlKey || event.metaKey || state.several)}>
      ${markOf(head)}</button>`;
  };
  const reach = (item, event) => item.value && (!state.several || event.shiftKey) && choose(item.value, event.shiftKey);
  return html`<${Group} id="picker" class=${several ? "several" : ""} role="group" aria-label="Heads" onMove=${reach}
    style=${{ "--columns": HEADS }}>
    ${heads.flatMap((head) => [...(head.index % HEADS ? [] : [layer(head)]), button(head)])}
  <//>`;
}

/** What is known of a head: what it does, how sure that is, its scores, its links, where its attention goes. */
function Card({ head, isBrief }) {
  const doubt = isUnsure(head) && html`<b title=${facts.whyUnsure}>?</b>`;
  const title = html`<h2>
    <${Swatch} color=${colorsOf(head).color} />Head ${head.name} <span>${kindOf(head).words}${doubt}</span>
  </h2>`;
  if (isBrief) return html`<article class="card">${title}</article>`;
  const [label, stays] = [cellOf(head, "label"), cellOf(head, "label_stays")];
  const percent = `${Number((100 * Number(stays)).toFixed(1))} %`;
  const about = [
    facts.titles[reading()].replace("each head", "it"),
    rests(head) && "rests: more than half of its attention is on special tokens",
    stays && `label ${label}: the same in ${percent} of bootstrap resamples of the ${facts.drawn}`,
  ];
  return html`<article class="card">
    ${title}
    ${statementOf(head) !== kindOf(head).words && html`<p class="does">${statementOf(head)}</p>`}
    <p class="hint">${about.filter(Boolean).join("; ")}</p>
    <${Scores} head=${head} />
    <p class="hint">${otherReadings(head)}</p>
    <${Links} head=${head} />
    <${Profile} head=${head} />
    ${facts.card && html`<p class="hint more">
      ${OF_PAIRS ? "The" : "Over many pairs, the"} words that it links, in which sentences, and why: ${" "}
      <code>${facts.card.replace("HEAD", head.name)}</code>
    </p>`}
  </article>`;
}

/** A head's score for each pattern, its interval over pairs, and what even attention would have. */
function Scores({ head }) {
  const digits = OF_PAIRS ? 3 : 2;
  const rows = patterns.map((kind) => {
    const [score, above] = [cellOf(head, kind.id), aboveChance(head, kind)];
    const numbers = html`<td>${Number(score).toFixed(digits)}</td>
      ${OF_PAIRS && html`<td>${intervalOf(head, kind.id, digits)}</td>`}
      <td class="chance">${chanceOf(head, kind)?.toFixed(digits)}</td>`;
    return html`<tr class=${kind.id === kindOf(head).id ? "label" : ""}
      title=${score && `${above.toFixed(2)} above chance`}>
      <th scope="row">${kind.id}</th>
      ${score ? numbers : html`<td class="none" colspan=${OF_PAIRS ? 3 : 2}>${OF_PAIRS ? whyNone(kind) : "–"}</td>`}
      <td><${Bar} share=${above} color=${kind.color} /></td>
    </tr>`;
  });
  return html`<table class="scores">
    <caption>score, ${OF_PAIRS && "95 % interval, "}chance; bar: above chance</caption><tbody>${rows}</tbody>
  </table>`;
}

/** The 95 % interval of a head's score, as text; empty where it is not known. */
function intervalOf(head, id, digits = 2) {
  const bounds = ["low", "high"].map((bound) => cellOf(head, `${id}_${bound}`));
  return bounds.every(Boolean) ? bounds.map((bound) => Number(bound).toFixed(digits)).join("–") : "";
}

/** What a head does in the other readings, its entropy, and how much it puts out, where that is known. */
function otherReadings(head) {
  const others = Object.keys(facts.titles).filter((by) => by !== reading()).map((by) => {
    const title = facts.titles[by].replace("what each head does, ", "");
    return `${title}: ${kindOf(head, by).words}${isUnsure(head, by) ? "?" : ""}`;
  });
  const [entropy, output] = ["entropy", "output"].map((name) => cellOf(head, name));
  if (entropy) others.push(`entropy ${Number(entropy).toFixed(2)} nats`);
  if (output) others.push(`writes ${(Number(output) * HEADS).toFixed(1)} times its share of the layer`);
  return others.join("; ");
}

/** From which words to which keys a head's numbers are largest, in the sentences that are chosen. */
function Links({ head }) {
  const numbers = OF_PAIRS ? null : numbersOf(head);
  if (!numbers) return null;
  const queries = tokensOn("q").filter((query) => !facts.special[query]);
  const links = queries.flatMap((query) => tokensOn("k").map((key) => [numbers[query * LENGTH + key], query, key]));
  const strongest = links.sort((a, b) => b[0] - a[0]).slice(0, 5).filter(([value]) => value > 0);
  const rows = strongest.map(([value, query, key]) => html`<tr>
    <th scope="row">${called(query)} → ${called(key)}</th>
    <td>${value.toFixed(2)}</td><td><${Bar} share=${value} /></td>
  </tr>`);
  return html`<table class="links"><caption>links most, from → to</caption><tbody>${rows}</tbody></table>`;
}

/** Where a head's attention goes, largest share first; over pairs with half the 95 % interval. */
function Profile({ head }) {
  const profile = tables[reading()].profiles[head.index];
  if (!profile) return null;
  const digits = OF_PAIRS ? 3 : 2;
  const rows = profile.map(([name, share, half]) => html`<tr>
    <th scope="row">${name}</th><td>${share.toFixed(digits)}</td>
    ${OF_PAIRS && html`<td>${half === null ? "" : `± ${half.toFixed(3)}`}</td>`}
    <td><${Bar} share=${share} /></td>
  </tr>`);
  return html`<table class="profile"><caption>Where its attention goes</caption><tbody>${rows}</tbody></table>`;
}
