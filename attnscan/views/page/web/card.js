// What is known of a head: what it does, how sure that is, its scores, its links, where its attention goes.

import { html } from "./preact.js";
import { Bar, Swatch } from "./dom.js";
import { facts, headsPerLayer, isOfPairs, patterns, tables, tokenCount } from "./data.js";
import { reading, tokensOn } from "./state.js";
import { called } from "./tokens.js";
import {
  aboveChance,
  cellOf,
  chanceOf,
  doubtOf,
  intervalOf,
  isUnsure,
  kindOf,
  numbersOf,
  rests,
  statementOf,
  whyDoubt,
  whyNone,
} from "./reading.js";
import { colorsOf } from "./heads.js";

/** What is known of a head: what it does, how sure that is, its scores, its links, where its attention goes. */
export function Card({ head, isBrief }) {
  const doubt = doubtOf(head) && html`<b title=${whyDoubt(head)}>${doubtOf(head)}</b>`;
  const title = html`<h2>
    <${Swatch} color=${colorsOf(head).color} />Head ${head.name} <span>${kindOf(head).words}${doubt}</span>
  </h2>`;
  if (isBrief) return html`<article class="card">${title}</article>`;
  const label = cellOf(head, "label");
  const stays = cellOf(head, "label_stays");
  const percent = `${Number((100 * Number(stays)).toFixed(1))} %`;
  const about = [
    facts.titles[reading()].replace("each head", "it"),
    rests(head) && "rests: more than half of its attention is on special tokens",
    stays && `label ${label}: the same in ${percent} of bootstrap resamples of ${facts.drawn}`,
    facts.held?.[head.index]?.replace(/\.$/, ""),
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
      ${isOfPairs ? "The" : "Over many pairs, the"} words that it links, in which sentences, and why: ${" "}
      <code>${facts.card.replace("HEAD", head.name)}</code>
    </p>`}
  </article>`;
}

/** A head's score for each pattern, its interval over pairs, and what even attention would have. */
function Scores({ head }) {
  const digits = isOfPairs ? 3 : 2;
  const rows = patterns.map((kind) => {
    const score = cellOf(head, kind.id);
    const above = aboveChance(head, kind);
    const numbers = html`<td>${Number(score).toFixed(digits)}</td>
      ${isOfPairs && html`<td>${intervalOf(head, kind.id, digits)}</td>`}
      <td class="chance">${chanceOf(head, kind)?.toFixed(digits)}</td>`;
    return html`<tr class=${kind.id === kindOf(head).id ? "label" : ""}
      title=${score && `${above.toFixed(2)} above chance`}>
      <th scope="row">${kind.id}</th>
      ${score ? numbers : html`<td class="none" colspan=${isOfPairs ? 3 : 2}>${isOfPairs ? whyNone(kind) : "–"}</td>`}
      <td><${Bar} share=${above} color=${kind.color} /></td>
    </tr>`;
  });
  return html`<table class="scores">
    <caption>score, ${isOfPairs && "95 % interval, "}chance; bar: above chance</caption><tbody>${rows}</tbody>
  </table>`;
}

/** What a head does in the other readings, its means with a unit, and how much it puts out, where that is known. */
function otherReadings(head) {
  const others = Object.keys(facts.titles).filter((by) => by !== reading()).map((by) => {
    const title = facts.titles[by].replace("what each head does, ", "");
    return `${title}: ${kindOf(head, by).words}${isUnsure(head, by) ? "?" : ""}`;
  });
  for (const [name, { unit, decimals }] of Object.entries(facts.columns)) {
    const text = unit && cellOf(head, name);
    if (text) others.push(`${name} ${Number(text).toFixed(decimals)} ${unit}`);
  }
  const output = cellOf(head, "output");
  if (output) others.push(`writes ${(Number(output) * headsPerLayer).toFixed(1)} times its share of the layer`);
  return others.join("; ");
}

/** From which words to which keys a head's numbers are largest, in the sentences that are chosen. */
function Links({ head }) {
  const numbers = isOfPairs ? null : numbersOf(head);
  if (!numbers) return null;
  const queries = tokensOn("q").filter((query) => !facts.special[query]);
  const links = queries.flatMap((query) => tokensOn("k").map((key) => [numbers[query * tokenCount + key], query, key]));
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
  const digits = isOfPairs ? 3 : 2;
  const rows = profile.map(([name, share, half]) => html`<tr>
    <th scope="row">${name}</th><td>${share.toFixed(digits)}</td>
    ${isOfPairs && html`<td>${half === null ? "" : `± ${half.toFixed(3)}`}</td>`}
    <td><${Bar} share=${share} /></td>
  </tr>`);
  return html`<table class="profile"><caption>Where its attention goes</caption><tbody>${rows}</tbody></table>`;
}
