// What heads do in the reading that is shown: their kinds, scores and numbers.

import {
  allHeads,
  bytesOf,
  carriedRows,
  column,
  facts,
  holds,
  isOfPairs,
  joined,
  kindNamed,
  numbersIn,
  ofCarried,
  once,
  patterns,
  tables,
} from "./data.js";
import { reading, state } from "./state.js";

/** What the table has in a column of a head's line; nothing if there is none of that name. */
export const cellOf = (head, name, by = reading()) => tables[by].rows[head.index][column[name]] ?? "";

/** What an even spread would score for a pattern; null where no word was eligible. */
export const chanceOf = (head, { id }) => tables[reading()].chance[head.index][patterns.indexOf(kindNamed[id])];

/** How far above chance a head's score is, in [0, 1]; 0 where it is not distinguished from chance. */
export function aboveChance(head, { id }) {
  const score = cellOf(head, id);
  const chance = chanceOf(head, { id });
  const low = cellOf(head, `${id}_low`);
  if (score === "" || chance === null || chance >= 1 || (low !== "" && Number(low) <= chance)) return 0;
  return Math.max(0, (Number(score) - chance) / (1 - chance));
}

/** The 95 % interval of a head's score, as text; empty where it is not known. */
export function intervalOf(head, id, digits = 2) {
  const bounds = ["low", "high"].map((bound) => cellOf(head, `${id}_${bound}`));
  return bounds.every(Boolean) ? bounds.map((bound) => Number(bound).toFixed(digits)).join("–") : "";
}

/** Why no head has a score for a pattern. */
export function whyNone(pattern) {
  if (pattern.whyNone) return `not measured: ${pattern.whyNone}`;
  return `no word of ${isOfPairs ? "these pairs" : "this input"} is eligible`;
}

/** Whether a head's label would not stay, or rests on too little to tell. */
export const isUnsure = (head, by = reading()) => tables[by].unsure[head.index] === 1;

/** Whether a head's label is sure, and another one in the second corpus that was held against this one. */
export const isChanged = (head) => tables[reading()].changed[head.index] === 1;

/** Whether more than half of a head's attention is on special tokens. */
export const rests = (head) => tables[reading()].rests[head.index] === 1;

/** What a head does among words: the pattern that it follows, else its habit. Its letter is on every map. */
export const kindOf = (head, by = reading()) => kindNamed[cellOf(head, "among_words", by)] ?? kindNamed.none;

/** Whether a head is of a kind: of `delimiter` those that rest. */
export const isOf = (head, id) => (id === "delimiter" ? cellOf(head, "label") : kindOf(head).id) === id;

/** What heads may do, with how many do it: the patterns, the habits that some have, most heads first, and neither. */
export function kindsShown() {
  const counted = (kind) => ({ ...kind, count: allHeads.filter((head) => isOf(head, kind.id)).length });
  const habits = facts.habits.filter(({ id }) => id !== "none").map(counted);
  const had = habits.filter(({ id, count }) => count || id === state.only).sort((a, b) => b.count - a.count);
  return [...facts.patterns.map(counted), ...had, counted(kindNamed.none)];
}

/** What a head does, with its numbers. */
export const statementOf = (head) => tables[reading()].does[head.index] ?? kindOf(head).words;

/** `?` if a head's label is not sure, `≠` if it is sure and another one in the second corpus. */
export function doubtOf(head) {
  if (isUnsure(head)) return "?";
  return isChanged(head) ? "≠" : "";
}

/** What `doubtOf` means, in words behind others. */
export function doubtInWords(head) {
  if (isUnsure(head)) return ", not sure";
  return isChanged(head) ? ", another label in the second corpus" : "";
}

/** What `doubtOf` means, in full. */
export const whyDoubt = (head) => (isUnsure(head) ? facts.whyUnsure : "sure, and another label in the second corpus");

/** A head's letter as on every map, its doubt, and a mark if it rests. */
export const markOf = (head) => kindOf(head).letter + doubtOf(head) + (rests(head) ? facts.restsMark : "");

/** Whether a kind's colour is on the map: heads that rest have the one of what they do among words. */
export const hasColor = (id) => id !== "delimiter" || allHeads.some((head) => kindOf(head).id === id);

/** The letter of a kind in a legend; where its own is on no map, the mark of heads that rest. */
export const letterOf = ({ id, letter }) => (hasColor(id) ? letter : facts.restsMark);

/** A head's numbers by the reading, [query × key] in one array; null if the page does not hold them. */
export function numbersOf(head, by = reading()) {
  if (!holds(ofCarried(by) ? "carried" : "weights", head)) return null;
  return once(`${by}-${head.name}`, async () => {
    const weights = joined(await bytesOf(`weights-${head.name}`));
    if (!ofCarried(by)) return numbersIn(weights, by);
    return numbersIn(carriedRows(weights, joined(await bytesOf(`carried-${head.name}`))), by);
  });
}

/** Every head made small, in the reading that is shown. */
export const thumbnails = () => once(`thumbnails-${reading()}`, () => bytesOf(`thumbnails-of-${reading()}`));
