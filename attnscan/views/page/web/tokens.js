// What tokens are called.

import { html } from "./preact.js";
import { facts, sourceCount } from "./data.js";

/** A token's place in its text: of cross attention, the target's are counted from 0 as well. */
export const placeOf = (index) => (index < sourceCount ? index : index - sourceCount);

/** What a token is called beside its text. */
export function tokenName(index) {
  const token = `token ${placeOf(index)}`;
  if (!sourceCount) return token;
  return index < sourceCount ? `source ${token}` : `target ${token}`;
}
const RIGHT_TO_LEFT = /[\p{sc=Arab}\p{sc=Hebr}\p{sc=Nkoo}\p{sc=Syrc}\p{sc=Thaa}]/gu;

/** The direction of the text, that of most letters of words. */
export function direction() {
  const letters = facts.tokens.filter((_, index) => !facts.special[index]).join("").match(/\p{L}/gu) ?? [];
  return 2 * letters.filter((letter) => letter.match(RIGHT_TO_LEFT)).length > letters.length ? "rtl" : "ltr";
}

/** A token by its text and place; the text's direction stays its own. */
export const named = (index) => html`<bdi>${facts.tokens[index]}</bdi> (${placeOf(index)})`;

/** A token by its text, and by its place where others have the same text. */
export function called(index) {
  const text = facts.tokens[index];
  const isOnly = facts.tokens.indexOf(text) === facts.tokens.lastIndexOf(text);
  return html`<bdi>${text}</bdi>${isOnly ? "" : html`<small> ${placeOf(index)}</small>`}`;
}
