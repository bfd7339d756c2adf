// Which heads are chosen, by clicks and in writing, and in which colours.

import { draw } from "./redraw.js";
import { allHeads, facts, headsPerLayer, layerCount } from "./data.js";
import { change, chosenHeads, state } from "./state.js";
import { kindOf } from "./reading.js";

/** What a colour means: with one head its label, with several the head. As { color, ink }, ink for text on it. */
export function colorsOf(head) {
  const chosen = chosenHeads();
  if (chosen.length === 1) return kindOf(head);
  const [color, ink] = facts.headColors[chosen.indexOf(head) % facts.headColors.length];
  return { color, ink };
}

/** The heads that a text names, by names and whole layers, each once; and what it has beside these. */
export function headsIn(text) {
  const words = text.split(/[\s,]+/).filter(Boolean);
  const layerOf = (word) => word.replace(/^layer:(?=\d)/, `layer:${facts.letter}`);
  const calledBy = (word) => allHeads.filter(({ name, layer }) => word === name || layerOf(word) === `layer:${layer}`);
  return { known: [...new Set(words.flatMap(calledBy))], unknown: words.filter((word) => !calledBy(word).length) };
}

export const noSuchHead = (unknown) =>
  `there is no head ${unknown.join(", ")}: ${facts.letter ? `${facts.attention} attention` : "this model"} has ` +
  `${layerCount} layers of ${headsPerLayer} heads, counted from ${allHeads[0].name}`;

export let unknownHeads = ""; // what was written and names no head

export function writeHeads(text) {
  const { known, unknown } = headsIn(text);
  unknownHeads = unknown.length ? noSuchHead(unknown) : "";
  if (unknownHeads || !known.length) return draw();
  return change({ heads: known.map(({ name }) => name).join(","), several: known.length > 1 ? "yes" : "" });
}

/** Show a head, or with `also` show it beside the others, or not any more. */
export function choose(name, also) {
  unknownHeads = "";
  if (!also || state.view === "neuron") return change({ heads: name, several: "" });
  const names = state.heads.split(",");
  const rest = names.filter((other) => other !== name);
  const next = rest.length < names.length && rest.length ? rest : [...rest, name];
  return change({ heads: next.join(","), several: "yes" });
}

/** Open a head. From the keyboard, the focus goes on to its first token or, over pairs, to its place on the map. */
export async function openHead(name, event) {
  await change({ view: "head", heads: name });
  if (event.detail) return; // a pointer has clicked
  const token = document.querySelector("#queries [tabindex='0']");
  const place = document.querySelector(`#picker [value="${name}"]`);
  /** @type {HTMLElement} */ (token ?? place).focus();
}
