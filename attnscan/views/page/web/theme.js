// The theme: the browser's, unless another was chosen.

import { draw } from "./redraw.js";
import { state } from "./state.js";

const prefersDark = window.matchMedia("(prefers-color-scheme: dark)");
let isPrinting = false;
const systemTheme = () => (prefersDark.matches ? "dark" : "light");

/** The theme that is on: on paper always the light one. */
export const theme = () => (isPrinting ? "light" : state.theme || systemTheme());

/** Draw the page whenever the browser's theme changes, or it is printed. */
export function followTheme() {
  prefersDark.addEventListener("change", draw);
  for (const name of ["beforeprint", "afterprint"]) {
    window.addEventListener(name, () => {
      isPrinting = name === "beforeprint";
      draw();
    });
  }
}
