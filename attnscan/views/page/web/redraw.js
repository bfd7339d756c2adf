// When the page is drawn: after each change, and again when something that was being unpacked is there.

export let paint = () => {};
let waiting = 0; // how many things are being unpacked
const whenIdle = [];

/** Have the page drawn by a function. */
export function drawBy(painter) {
  paint = painter;
}

/** Draw the page as it is now. */
export function draw() {
  paint();
}

/** Draw the page again when something that it lacks is there, and nothing else is lacking. */
export function drawAfter(promise) {
  waiting += 1;
  promise.finally(() => {
    waiting -= 1;
    if (!waiting) draw();
  });
}

export const isWaiting = () => waiting > 0;

/** Resolves when nothing is being unpacked. */
export const idle = () => new Promise((done) => (waiting ? whenIdle.push(done) : done()));

/** All is drawn: go on with what has waited for that. */
export function goOn() {
  for (const done of whenIdle.splice(0)) done();
}
