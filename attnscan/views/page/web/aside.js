// Beside the head and neuron views: a small map to choose heads from, and the cards of those that are chosen.

import { html } from "./preact.js";
import { Group } from "./dom.js";
import { allHeads, headsPerLayer, holds, isOfPairs } from "./data.js";
import { change, chosenHeads, isOff, state } from "./state.js";
import { doubtInWords, kindOf, markOf } from "./reading.js";
import { choose, colorsOf, unknownHeads, writeHeads } from "./heads.js";
import { Card } from "./card.js";

export function Aside({ SwitchOff }) {
  const chosen = chosenHeads();
  const isNeuron = state.view === "neuron";
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
    ${SwitchOff && html`<${SwitchOff} />`}
    ${!isOfPairs && html`<div id="facts">
      ${chosen.map((head) => html`<${Card} key=${head.name} head=${head} isBrief=${chosen.length > 1} />`)}
    </div>`}
  </aside>`;
}

/** A button for each layer and head. */
function Picker({ chosen }) {
  const several = chosen.length > 1;
  const layer = (head) => {
    const names = allHeads.filter((other) => other.layer === head.layer).map(({ name }) => name);
    const about = `All heads of layer ${head.layer}`;
    return html`<button key="layer ${head.layer}" type="button" class="layer" title=${about} aria-label=${about}
      onClick=${() => change({ heads: names.join(","), several: "yes" })}>${head.layer}</button>`;
  };
  const button = (head) => {
    const isChosen = chosen.includes(head);
    const kind = kindOf(head);
    const { color, ink } = several && isChosen ? colorsOf(head) : kind;
    const about = `${head.name}, ${kind.words}${doubtInWords(head)}`;
    const isAbsent = !isOfPairs && !holds("weights", head);
    return html`<button key=${head.name} type="button" value=${head.name} aria-pressed=${isChosen} title=${about}
      aria-label="${markOf(head)} ${about}" style=${{ "--color": color, "--ink": ink }}
      class="${isAbsent ? "absent" : ""} ${isOff(head) ? "out" : ""} ${kind.id === "none" ? "none" : ""}"
      onClick=${(event) => choose(head.name, event.shiftKey || event.ctrlKey || event.metaKey || state.several)}>
      ${markOf(head)}</button>`;
  };
  const reach = (item, event) => item.value && (!state.several || event.shiftKey) && choose(item.value, event.shiftKey);
  return html`<${Group} id="picker" class=${several ? "several" : ""} role="group" aria-label="Heads" onMove=${reach}
    style=${{ "--columns": headsPerLayer }}>
    ${allHeads.flatMap((head) => [...(head.index % headsPerLayer ? [] : [layer(head)]), button(head)])}
  <//>`;
}
