// Puts the views together: tabs, theme, printing, and what to paint when something changed.

const dark = window.matchMedia("(prefers-color-scheme: dark)");
let printing = false;

const theme = () => (printing ? "light" : state.theme || (dark.matches ? "dark" : "light"));

let turn = 0;

/** Paint what the state says. The page is marked as settled once all of it is there. */
async function show() {
  const mine = ++turn;
  document.documentElement.dataset.settled = "no";
  await views[state.view].unpack?.(); // before anything moves: a long view is laid out once
  if (mine !== turn) return;
  const beside = state.view === "head" || state.view === "neuron";
  document.documentElement.dataset.theme = theme();
  document.documentElement.dataset.view = state.view;
  find("theme").textContent = theme() === "dark" ? "Light" : "Dark";
  find("theme").setAttribute("aria-label", `Change to the ${theme() === "dark" ? "light" : "dark"} theme`);
  for (const tab of tabs) {
    const chosen = tab.value === state.view;
    tab.setAttribute("aria-selected", String(chosen));
    find(tab.value).hidden = !chosen;
  }
  rove(tabs, tabs.find((tab) => tab.value === state.view));
  find("beside").hidden = !beside;
  for (const [name, paint] of Object.entries(paintReading)) {
    find(`${name}-field`).hidden = state.view === "neuron"; // a softmax is over all keys
    paint(state[name]);
  }
  paintSummary();
  if (!OF_PAIRS) paintPairs();
  if (beside) paintPicker();
  for (const follow of onShow) follow();
  await views[state.view].paint();
  if (mine === turn) document.documentElement.dataset.settled = "yes";
}

/** How many heads do something, and which one follows its pattern most; choosing that one opens it. */
function paintSummary() {
  const above = (head) => aboveChance(head, kindOf(head).id);
  const following = heads.filter((head) => scored.includes(kindOf(head).id));
  const clearest = following.length && following.reduce((best, head) => (above(head) > above(best) ? head : best));
  const said = clearest ? `: ${kindOf(clearest).words} ${Number(cellOf(clearest, "share")).toFixed(2)}.` : "";
  if (find("summary").dataset.of === packed.summary[reading()] + said) return;
  find("summary").dataset.of = packed.summary[reading()] + said;
  const opener = clearest && make("button", { type: "button", value: clearest.name, title: "Look at this head" }, clearest.name);
  opener && opener.addEventListener("click", (event) => openHead(clearest.name, event));
  refill(find("summary"), packed.summary[reading()], ...(clearest ? [make("span", {}, " The clearest is ", opener, said)] : []));
}

/** To what the view is about: a head's thumbnail, its tokens, its row. */
function skip() {
  const places = ["#thumbnails", "#queries", "#asked", "#cards", "#scores"].map((id) => `${id} [tabindex="0"]`);
  const there = [...document.querySelectorAll(places.join())].find((element) => element.checkVisibility());
  (there ?? find("picker").querySelector("[tabindex='0']")).focus();
}

const tabs = [...find("tabs").children];
for (const tab of tabs) tab.addEventListener("click", () => change({ view: tab.value }));
steer(find("tabs"), () => tabs, (tab) => change({ view: tab.value }));
if (!OF_PAIRS) find("pairs").addEventListener("change", (event) => change({ pairs: event.target.value }));
const paintReading = {
  by: segmented("by", (by) => change({ by })),
  special: segmented("special", (special) => change({ special })),
};
find("skip").addEventListener("click", skip);
find("theme").addEventListener("click", () => change({ theme: theme() === "dark" ? "light" : "dark" }));

fillPicker();
buildPicker();
for (const view of Object.values(views)) view.build();
for (const name of ["renew", "fill"]) for (const view of Object.values(views)) view[name]?.();

/** Show what the address says. */
async function arrive() {
  await readAddress();
  await show();
}

await arrive();
for (const name of ["popstate", "hashchange"]) window.addEventListener(name, arrive);
dark.addEventListener("change", show);
let width = window.innerWidth;
window.addEventListener("resize", () => {
  if (window.innerWidth === width) return;
  width = window.innerWidth;
  show();
});
window.addEventListener("beforeprint", () => {
  printing = true;
  show();
});
window.addEventListener("afterprint", () => {
  printing = false;
  show();
});
