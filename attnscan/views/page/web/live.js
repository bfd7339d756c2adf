// A page whose model is still there: what is typed or changed is asked anew, and the answer takes the page's place.

import { html } from "./preact.js";
import { Group, narrow } from "./dom.js";
import { draw } from "./redraw.js";
import { allHeads, facts, headNamed, inputs, live, take } from "./data.js";
import {
  address,
  askWith,
  change,
  chosenHeads,
  isOff,
  sensible,
  setState,
  state,
} from "./state.js";
import { direction, named } from "./tokens.js";
import { Select } from "./controls.js";
import { headsIn, noSuchHead } from "./heads.js";
import { start } from "./app.js";

const untouched = { hidden: "", positions: "kept", segments: "kept", without: "" };

/** What is asked first: hidden holds places of tokens behind the mask, without the heads that are switched off. */
function usualQuestion() {
  const { a, b, hidden, positions, segments, off } = live.question;
  return { a, b: b ?? "", hidden: hidden.join(","), positions, segments, without: off.join(",") };
}

function allowedInQuestions() {
  return {
    a: (text) => text.trim() !== "",
    b: () => true,
    hidden: (text) => /^(\d+(,\d+)*)?$/.test(text),
    positions: (text) => Object.hasOwn(POSITIONS, text),
    segments: (text) => Object.hasOwn(SEGMENTS, text),
    without: (text) => text === "" || text.split(",").every((name) => Object.hasOwn(headNamed, name)),
  };
}

const POSITIONS = { kept: "as they are", shuffled: "shuffled" };
const SEGMENTS = { kept: "as they are", swapped: "swapped", zeroed: "all A" };
const listed = (text) => (text ? text.split(",") : []);

/** What a state asks of the server; other attention than an encoder's is read as it is. */
function questionOf(wanted) {
  const fields = inputs.length > 1 && wanted.input !== "encoder" ? { ...wanted, ...untouched } : wanted;
  return JSON.stringify({
    a: fields.a,
    b: fields.b.trim() ? fields.b : null,
    hidden: listed(fields.hidden).map(Number),
    positions: fields.positions,
    segments: fields.segments,
    off: listed(fields.without),
    model: live.model,
    ...(inputs.length > 1 ? { attention: fields.input } : {}),
  });
}

let answer = live; // what is shown: { id, words, predictions }; words are its tokens, hidden ones by their own text
let answered = JSON.stringify(live.question); // the question that it answers
let lastQuestion = ""; // what the server was sent last
let refused = ""; // why it was
let noHeads = ""; // why what is written in "Heads off" names none
let carry = null; // before an edit: the words, and which were hidden
let isAsking = false;
let past = [{ question: answered, words: live.words }]; // what was asked, the last first

/** What the server has at a path, or answers to a question; it is asked again while it is busy. */
async function request(path, question) {
  const sent = question && { method: "POST", headers: { "Content-Type": "application/json" }, body: question };
  const response = await fetch(path, sent).catch(() => null);
  if (response?.status === 503) {
    await new Promise((resolve) => setTimeout(resolve, 300));
    return request(path, question);
  }
  const error = "the server does not answer: start attnscan serve again, and open the address that it prints";
  return { status: response?.status, ...((await response?.json().catch(() => null)) ?? { error }) };
}

/** Ask until what is shown is what is wanted: one question at a time, and those in between are left out. */
async function follow() {
  const wanted = questionOf(state);
  const isDone = wanted === (refused ? lastQuestion : answered);
  document.documentElement.dataset.asking = isAsking || !isDone ? "yes" : "no";
  if (isAsking || isDone) return;
  isAsking = true;
  await askInput(state.input, state);
  isAsking = false;
  draw();
}

/** Ask what a state says, and take the answer in place of what is shown. */
async function askInput(key, fields) {
  const question = questionOf({ ...fields, input: key });
  lastQuestion = question;
  refused = fields.a.trim() ? "" : "A is empty: type a sentence";
  if (refused || question === answered) return;
  const next = await request("answer", question);
  refused = next.error ?? "";
  if (refused) return;
  [answer, answered] = [next, question];
  await take(next.facts, textsOfServer(next, question));
  past = [{ question, words: next.words }, ...past.filter((each) => each.question !== question)].slice(0, 50);
  const hidden = carry ? { hidden: placesAfter(carry, next.words).join(",") } : {};
  setState({ ...sensible(state), a: state.a, b: state.b, ...hidden });
  carry = null;
  history.replaceState(null, "", address());
}

/** Where hidden words stand after an edit, counted from the start or the end; those that are gone are left out. */
function placesAfter({ words, hidden }, next) {
  const apart = next.length - words.length;
  const places = hidden.flatMap((place) => [place, place + apart].find((at) => next[at] === words[place]) ?? []);
  return [...new Set(places)];
}

/** An answer's packed texts; a head's are asked for when needed, and made again where the server has dropped them. */
function textsOfServer({ id, facts: { texts: known, whyNot, neurons } }, question) {
  const numbers = new Map();
  const askFor = async (head) => {
    const first = await request(`numbers/${id}/${head}`);
    if (first.status === 410) await request("answer", question);
    return first.status === 410 ? request(`numbers/${id}/${head}`) : first;
  };
  const isThere = { weights: true, carried: !("carried" in whyNot), neurons: neurons > 0 };
  return {
    has: (name) => isThere[name.split("-")[0]] ?? name in known,
    async text(name) {
      if (name in known) return known[name];
      const head = name.slice(name.indexOf("-") + 1);
      if (!numbers.has(head)) numbers.set(head, askFor(head));
      return (await numbers.get(head)).texts[name];
    },
  };
}

/** Save what is shown as an offline page; the server makes it again where it has dropped it. */
async function save(event) {
  event.preventDefault();
  const { id } = answer;
  lastQuestion = answered;
  refused = (await request("answer", lastQuestion)).error ?? "";
  if (!refused) location.assign(`page/${id}`);
  draw();
}

/** Change the text; words that are hidden stay so, as far as they are still there. */
function edit(changes) {
  if (state.hidden) carry = { words: answer.words, hidden: listed(state.hidden).map(Number) };
  change({ ...changes, hidden: "" });
}

/** Why something may not be changed; empty if it may. */
function whyFixed(what) {
  if (inputs.length > 1 && facts.key !== "encoder") return `Not here: ${facts.attention} attention is read as it is`;
  const why = live.available[live.model][what];
  return why ? `Not here: ${why}` : "";
}

/** What is typed and what may be changed beside the words. */
function Asked() {
  const box = (name, placeholder) => html`<label><b>${name.toUpperCase()}</b>
    <textarea id="sentence-${name}" rows="1" spellcheck="false" placeholder=${placeholder} value=${state[name]}
      onInput=${(event) => edit({ [name]: event.target.value })}
      onKeyDown=${(event) => event.key === "Enter" && event.preventDefault()} /></label>`;
  const hasTarget = facts.letter || inputs.length > 1;
  const whatIsB = hasTarget ? "the target; where there is none, the model writes it" : "a second sentence, or none";
  const [positions, segments, off] = ["positions", "segments", "off"].map(whyFixed);
  const turn = (event) => location.assign(`?model=${event.target.value}${address()}`);
  return html`<form id="ask" autocomplete="off" onSubmit=${(event) => event.preventDefault()}>
    <div class="boxes">${box("a")}${box("b", whatIsB)}</div>
    <details id="changes" open=${!narrow()}>
      <summary>Hide words, switch heads off</summary>
      ${!whyFixed("hidden") && html`<${Words} />`}
      <div class="toolbar">
        <${Select} name="positions" title="Positions" options=${Object.entries(POSITIONS)}
          disabled=${Boolean(positions)} />
        ${state.b.trim() && inputs.length === 1 && html`<${Select} name="segments" title="Segments"
          options=${Object.entries(SEGMENTS)} disabled=${Boolean(segments)} />`}
        <label class="field"><span class="name">Heads off</span>
          <input id="without" type="text" size="12" placeholder="none" spellcheck="false"
            disabled=${Boolean(off)} title=${off} value=${noHeads ? undefined : state.without.replaceAll(",", ", ")}
            onChange=${(event) => switchOff(event.target.value)} /></label>
        ${live.models.length > 1 && html`<label class="field"><span class="name">Model</span>
          <select id="which" value=${live.model} onChange=${turn}>
            ${live.models.map((name, place) => html`<option value=${place}>${name}</option>`)}
          </select></label>`}
        <${Past} />
        <a id="offline" download="attnscan.html" href="page/${answer.id}" onClick=${save}>Save page</a>
      </div>
    </details>
    ${(refused || noHeads) && html`<p class="notice" id="refused" role="alert">${refused || noHeads}</p>`}
    <div id="predictions" aria-live="polite">${answer.predictions.map(predictionTables)}</div>
  </form>`;
}

/** The input's words; a click hides one behind the mask, or shows it again. */
function Words() {
  const hidden = listed(state.hidden).map(Number);
  const flip = (place) => {
    const places = hidden.includes(place) ? hidden.filter((other) => other !== place) : [...hidden, place];
    change({ hidden: places.sort((a, b) => a - b).join(",") });
  };
  return html`<div class="field" id="hide"><span class="name" id="hide-name">Hide</span>
    <${Group} id="words" class="chips" role="group" aria-labelledby="hide-name" dir=${direction()}>
      ${answer.words.map((word, place) => html`<button key=${place} type="button" value=${place}
        disabled=${facts.special[place] && !hidden.includes(place)} aria-pressed=${hidden.includes(place)}
        onClick=${() => flip(place)}><bdi>${word}</bdi></button>`)}
    <//>
  </div>`;
}

/** Switch off heads as they are written, names and whole layers, unless one of them is not there. */
function switchOff(text) {
  const { known, unknown } = headsIn(text);
  noHeads = unknown.length ? noSuchHead(unknown) : "";
  if (noHeads) return draw();
  return change({ without: allHeads.filter((head) => known.includes(head)).map(({ name }) => name).join(",") });
}

/** A button that switches the chosen heads off in the model, or on if all of them are off. */
function SwitchOff() {
  const chosen = chosenHeads();
  const on = chosen.every(isOff);
  const which = chosen.length > 1 ? `these ${chosen.length} heads` : `head ${chosen[0].name}`;
  const flip = () => {
    noHeads = "";
    const off = allHeads.filter((head) => (chosen.includes(head) ? !on : isOff(head)));
    change({ without: off.map(({ name }) => name).join(",") });
  };
  const why = whyFixed("off");
  return html`<button type="button" id="switch-off" class="plain" disabled=${Boolean(why)} title=${why} onClick=${flip}>
    Switch ${which} ${on ? "on again" : "off"}</button>`;
}

/** What was asked before, to be come back to, linked and opened elsewhere. */
function Past() {
  const line = ({ question, words }) => {
    const fields = JSON.parse(question);
    const { positions, segments } = fields;
    const changes = [
      fields.hidden.length && `hidden: ${fields.hidden.map((place) => words[place]).join(", ")}`,
      positions !== "kept" && `positions ${positions}`,
      segments !== "kept" && `segments ${segments}`,
      fields.off.length && `${fields.off.length > 3 ? `${fields.off.length} heads` : fields.off.join(", ")} off`,
    ];
    const values = { a: fields.a, b: fields.b ?? "", hidden: fields.hidden.join(","), without: fields.off.join(",") };
    const text = [fields.a, fields.b].filter(Boolean).join(" | ");
    return html`<li key=${question}><a href=${address({ ...state, ...values, positions, segments })} title=${text}>
      ${text} <small>${changes.filter(Boolean).join("; ")}</small></a></li>`;
  };
  return html`<details id="past"><summary>History</summary><ol>${past.map(line)}</ol></details>`;
}

/** What the model says of hidden words, of classes or in its vectors: as it is, and with what was changed. */
function predictionTables(prediction) {
  const { off, positions, segments } = JSON.parse(answered);
  const isChanged = off.length > 0 || positions !== "kept" || segments !== "kept";
  if (prediction.whyNone) return html`<p>${prediction.whyNone}</p>`;
  if (prediction.kind === "words") return prediction.words.map((word) => wordTable(word, isChanged));
  if (prediction.kind === "vectors") return isChanged && html`<${TurnedTable} turned=${prediction.turned} />`;
  const title = prediction.kind === "classes" ? "The class" : "Does B follow A?";
  return sharesTable(title, prediction.classes.map(({ name, before, after }) => [name, before, after]), isChanged);
}

/** The likeliest words in a hidden place, and the one that stands there. */
function wordTable({ place, truth, truthBefore, truthAfter, before, after }, isChanged) {
  const was = Object.fromEntries(before);
  const is = Object.fromEntries(after);
  const names = Object.keys({ ...is, ...(isChanged && was) }).filter((name) => name !== truth);
  const rows = [...names.map((name) => [name, was[name], is[name]]), [truth, truthBefore, truthAfter]];
  rows.sort((a, b) => (b[2] ?? 0) - (a[2] ?? 0));
  return sharesTable(html`In place of <b><bdi>${truth}</bdi></b> (${place})`, rows, isChanged, truth);
}

function sharesTable(title, rows, isChanged, truth) {
  const cell = (share) => html`<td class="shift" style=${{ "--share": share ?? 0 }}>${share?.toFixed(3)}</td>`;
  const line = ([name, before, after]) => html`<tr class=${name === truth ? "truth" : ""}>
    <th scope="row"><bdi>${name}</bdi></th>${isChanged && cell(before)}${cell(after)}</tr>`;
  return html`<table><caption>${title}</caption>
    ${isChanged && html`<thead><tr><td /><th scope="col">before</th><th scope="col">now</th></tr></thead>`}
    <tbody>${rows.map(line)}</tbody></table>`;
}

/** Which tokens' vectors the change has turned most. */
function TurnedTable({ turned }) {
  const most = [...turned.entries()].sort((a, b) => b[1] - a[1]).slice(0, 5);
  const line = ([place, by]) => html`<tr><th scope="row">${named(place)}</th><td>${by.toFixed(3)}</td></tr>`;
  const caption = "Vectors turned by the change (1 − cosine)";
  return html`<table><caption>${caption}</caption><tbody>${most.map(line)}</tbody></table>`;
}

askWith({ usual: usualQuestion, allowed: allowedInQuestions(), load: askInput });
await start(textsOfServer({ ...live, facts: inputs[0] }, answered), { Asked, SwitchOff, follow });
