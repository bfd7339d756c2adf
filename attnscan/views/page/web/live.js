// A page whose model is still there: what is typed or changed is asked anew, and the answer takes the page's place.

const BOXES = { a: "sentence-a", b: "sentence-b" };
const first = facts.live.question;
Object.assign(usual, {
  a: first.a,
  b: first.b ?? "",
  hidden: first.hidden.join(","), // places of tokens behind the mask
  positions: first.positions,
  segments: first.segments,
  without: first.off.join(","), // heads that are switched off in the model
});
Object.assign(allowed, {
  a: (text) => text.trim() !== "",
  b: () => true,
  hidden: (text) => /^(\d+(,\d+)*)?$/.test(text),
  positions: (text) => ["kept", "shuffled"].includes(text),
  segments: (text) => ["kept", "swapped", "zeroed"].includes(text),
  without: (text) => text === "" || text.split(",").every((name) => headNamed.has(name)),
});

const listed = (text) => (text ? text.split(",") : []);

const untouched = { hidden: [], positions: "kept", segments: "kept", off: [] };

/** What the state asks of the server. */
const questionOf = (said) => ({
  a: said.a,
  b: said.b.trim() ? said.b : null,
  hidden: listed(said.hidden).map(Number),
  positions: said.positions,
  segments: said.segments,
  off: listed(said.without),
  model: facts.live.model,
  ...(facts.kinds ? { attention: said.attention } : {}),
  ...(facts.kinds && said.attention !== "encoder" ? untouched : {}),
});

const asker = {
  id: facts.live.id, // of the answer that is shown
  shown: JSON.stringify(first), // the question that it answers
  words: facts.live.words, // its tokens, hidden ones by their own text
  texts: Object.fromEntries([...document.querySelectorAll('script[type="text/plain"]')].map((script) => [script.id, script.textContent])),
  busy: false,
  refused: "",
  noHeads: "", // why what is written in "Heads off" names none
  predictions: facts.live.predictions,
  carry: null, // hidden words, to be found again after an edit

  wanted: () => JSON.stringify(questionOf(state)),

  /** Ask until what is shown is what is wanted: one question at a time, and those in between are left out. */
  async follow() {
    if (this.busy) return;
    this.busy = true;
    try {
      for (let last = ""; last !== this.wanted(); ) {
        last = this.wanted();
        await this.answer(last);
      }
    } finally {
      this.busy = false;
    }
    paintLive();
  },

  async answer(wanted) {
    if (!state.a.trim()) return this.refuse("A is empty: type a sentence");
    if (wanted === this.shown && !this.refused) return;
    const started = performance.now();
    const answer = await this.post(wanted);
    if (answer.error) return this.refuse(answer.error);
    if (this.wanted() !== wanted) return;
    this.took = performance.now() - started;
    await this.adopt(answer, wanted);
  },

  /** The answer to a question; the server's own words where it refuses. */
  async post(question) {
    const { body: answer } = await request("answer", question);
    return answer ?? { error: "the server does not answer: start attnscan serve again, and open the address that it prints" };
  },

  refuse(why) {
    this.refused = why;
    paintLive();
  },

  /** Know what an answer says of its words and of what the model predicts. */
  take({ id, words, texts, predictions }, wanted) {
    Object.assign(this, { id, shown: wanted, words, texts, predictions, refused: "" });
  },

  /** Take an answer in place of what is shown, all at once. */
  async adopt(answer, wanted) {
    const [table, more] = await tableAndProfiles(answer);
    if (this.wanted() !== wanted) return;
    this.take(answer, wanted);
    takeInput(answer.facts, table, more);
    for (const { id, whyNone } of answer.patterns) pattern[id].whyNone = whyNone;
    const gone = ["token", "link"].filter((name) => !allowed[name](state[name]));
    if (gone.length) {
      state = { ...state, ...Object.fromEntries(gone.map((name) => [name, ""])) };
      history.replaceState(null, "", address());
    }
    setText(find("size"), sizeOfInput());
    const focused = document.activeElement;
    const list = focused?.closest("#queries, #keys, #asked, #words");
    for (const view of Object.values(views)) view.fill?.();
    remember();
    await show();
    if (list && !focused.isConnected) (list.querySelector(`[value="${focused.value}"]:enabled`) ?? list.querySelector("[tabindex='0']"))?.focus();
    this.hideAgain();
  },

  /** After an edit, hide again what was hidden, as far as it is still there. */
  hideAgain() {
    const { words, hidden } = this.carry ?? { hidden: [] };
    this.carry = null;
    if (!hidden.length) return;
    const apart = this.words.length - words.length;
    let before = 0;
    while (before < words.length && words[before] === this.words[before]) before++;
    const again = hidden.map((place) => (place < before ? place : place + apart)).filter((place) => this.words[place] === words[hidden.find((old) => old === place || old + apart === place)]);
    if (again.length) change({ hidden: again.join(",") });
  },

  /** One head's numbers, asked for once; where the server has dropped the answer, it makes it again. */
  numbers(head) {
    const [id, wanted] = [this.id, this.shown];
    return once(`numbers-${head}`, async () => {
      let { status, body } = await request(`numbers/${id}/${head}`);
      if (status === 410) {
        await this.post(wanted);
        ({ status, body } = await request(`numbers/${id}/${head}`));
      }
      if (status !== 200) throw new Error(body?.error ?? "no answer");
      if (id !== this.id) return body.texts;
      if (body.neuron) facts.neuron.of[head] = body.neuron;
      return body.texts;
    });
  },
};

/** What an answer says of every head: its line of the table, and its profile. */
const tableAndProfiles = ({ texts }) =>
  Promise.all(["table-bytes", "profile-bytes"].map((id) => (texts[id] ? factsIn(texts[id]) : {})));

Object.assign(cargo, {
  has(id) {
    const [kind] = id.split("-");
    if (kind === "weights") return true;
    if (kind === "carried") return facts.readings.includes("carried");
    if (kind === "neurons") return facts.neuron.size > 0;
    return id in asker.texts;
  },
  async text(id) {
    const [kind, ...head] = id.split("-");
    if (!["weights", "carried", "neurons"].includes(kind)) return asker.texts[id];
    return (await asker.numbers(head.join("-")))[id];
  },
});

/** A kind of attention as the server has it of what is typed. */
async function kindOfServer(name, said) {
  const wanted = JSON.stringify(questionOf({ ...said, attention: name }));
  const answer = await asker.post(wanted);
  if (answer.error) return asker.refuse(answer.error);
  const [table, more] = await tableAndProfiles(answer);
  return { table, more, next: answer.facts, take: () => asker.take(answer, wanted) };
}

/** Change the text; words that are hidden stay so. */
function edit(changes) {
  if (state.hidden) asker.carry = { words: asker.words, hidden: listed(state.hidden).map(Number) };
  change({ ...changes, hidden: "" });
}

function flipWord(place) {
  const hidden = new Set(listed(state.hidden).map(Number));
  if (!hidden.delete(place)) hidden.add(place);
  change({ hidden: [...hidden].sort((a, b) => a - b).join(",") });
}

/** Switch the chosen heads off in the model, or on if all of them are off. */
function switchHeads() {
  const off = new Set(listed(state.without));
  const names = chosenHeads().map((head) => head.name);
  const on = names.every((name) => off.has(name));
  for (const name of names) on ? off.delete(name) : off.add(name);
  asker.noHeads = "";
  change({ without: heads.map((head) => head.name).filter((name) => off.has(name)).join(",") });
}

/** Switch off heads as they are written, names and whole layers, unless one of them is not there. */
function switchOff(text) {
  const { known, unknown } = headsIn(text);
  asker.noHeads = unknown.length ? noSuchHead(unknown) : "";
  if (asker.noHeads) return paintLive();
  return change({ without: known.sort((a, b) => a.index - b.index).map((head) => head.name).join(",") });
}

function buildLive() {
  find("changes").open = !narrow(); // a wide window shows no summary
  window.addEventListener("resize", () => narrow() || (find("changes").open = true));
  find("ask").addEventListener("submit", (event) => event.preventDefault());
  for (const [name, id] of Object.entries(BOXES)) {
    find(id).addEventListener("input", (event) => edit({ [name]: event.target.value }));
    find(id).addEventListener("keydown", (event) => event.key === "Enter" && event.preventDefault());
  }
  for (const name of ["positions", "segments"]) find(name).addEventListener("change", (event) => change({ [name]: event.target.value }));
  find("without").addEventListener("change", (event) => switchOff(event.target.value));
  find("which")?.addEventListener("change", (event) => location.assign(`?model=${event.target.value}${address()}`));
  find("words").addEventListener("click", (event) => {
    const chip = event.target.closest("button:enabled");
    if (chip) flipWord(Number(chip.value));
  });
  steer(find("words"), () => [...find("words").querySelectorAll("button:enabled")]);
  find("switch-off").addEventListener("click", switchHeads);
  if (facts.letter || facts.kinds) find(BOXES.b).placeholder = "the target; where there is none, the model writes it";
  if (facts.kinds) knownKind = kindOfServer;
}

/** What may be changed: other attention than an encoder's is read as it is. */
function paintAvailable() {
  const { hidden, positions, segments, off } = facts.live.available[facts.live.model];
  const asItIs = facts.letter ? `${facts.attention} attention is read as it is` : "";
  for (const [id, why] of Object.entries({ positions, segments, without: off, "switch-off": off })) {
    find(id).disabled = Boolean(why || asItIs);
    find(id).title = why || asItIs ? `Not here: ${why || asItIs}` : "";
  }
  find("hide").hidden = Boolean(hidden || asItIs);
}

/** The boxes and buttons as the state has them. */
function paintLive() {
  document.documentElement.dataset.asking = asker.wanted() === asker.shown || asker.refused ? "no" : "yes";
  for (const [name, id] of Object.entries(BOXES)) if (find(id) !== document.activeElement || find(id).value.trim() !== state[name].trim()) find(id).value = state[name];
  for (const name of ["positions", "segments"]) find(name).value = state[name];
  paintAvailable();
  find("segments").closest("label").hidden = !state.b.trim() || Boolean(facts.kinds);
  if (find("without") !== document.activeElement && !asker.noHeads) find("without").value = state.without.replaceAll(",", ", ");
  notice("refused", asker.refused || asker.noHeads);
  find("offline").href = `page/${asker.id}`;
  paintWords();
  paintSwitch();
  paintPredictions();
}

function paintWords() {
  const hidden = new Set(listed(state.hidden).map(Number));
  const now = JSON.stringify([asker.words, facts.special]);
  if (find("words").dataset.of !== now) {
    find("words").dataset.of = now;
    find("words").dir = facts.rightToLeft ? "rtl" : "ltr";
    find("words").replaceChildren(
      ...asker.words.map((word, place) =>
        make("button", { type: "button", value: place, disabled: facts.special[place] && !hidden.has(place) }, make("bdi", {}, word)),
      ),
    );
  }
  const chips = [...find("words").children];
  for (const chip of chips) setAttribute(chip, "aria-pressed", String(hidden.has(Number(chip.value))));
  rove(chips.filter((chip) => !chip.disabled), chips.includes(document.activeElement) ? document.activeElement : null);
}

function paintSwitch() {
  const off = new Set(listed(state.without));
  const chosen = chosenHeads().map((head) => head.name);
  const on = chosen.every((name) => off.has(name));
  const many = chosen.length > 1 ? `these ${chosen.length} heads` : `head ${chosen[0]}`;
  setText(find("switch-off"), `Switch ${many} ${on ? "on again" : "off"}`);
  for (const button of [...views.model.cells, ...document.querySelectorAll("#picker button:not(.layer)")]) {
    button.classList.toggle("out", off.has(button.value));
  }
}

buildLive();
onShow.push(() => {
  paintLive();
  asker.follow();
});
