// Switches and lists that change the state.

import { html } from "./preact.js";
import { Group } from "./dom.js";
import { change, state } from "./state.js";

/** Radio buttons for a name of the state; each choice is its value, text, title, and why it is not there. */
export function Switch({ name, title, choices, onChoose = (value) => change({ [name]: value }) }) {
  return html`<span class="field" id="${name}-field">
    <span class="name" id="${name}-name">${title}</span>
    <${Group} id=${name} class="segmented" role="radiogroup" aria-labelledby="${name}-name"
      onMove=${(button) => button.click()}>
      ${choices.map(
        ([value, text, about, whyNot]) => html`<button type="button" role="radio" value=${value}
          disabled=${Boolean(whyNot)} title=${whyNot ? `Not here: ${whyNot}` : about}
          aria-checked=${state[name] === value} onClick=${() => onChoose(value)}>${text}</button>`,
      )}
    <//>
  </span>`;
}

/** A list to choose from for a name of the state; each option is its value and text. */
export function Select({ name, title, options, onChoose = (value) => change({ [name]: value }), ...attributes }) {
  return html`<label class="field"><span class="name">${title}</span>
    <select id=${name} value=${state[name]} onChange=${(event) => onChoose(event.target.value)} ...${attributes}>
      ${options.map(([value, text]) => html`<option key=${value} value=${value}>${text}</option>`)}
    </select>
  </label>`;
}
