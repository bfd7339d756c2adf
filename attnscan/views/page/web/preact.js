// What the pages' components are made of: Preact and htm, which stand before all scripts of a page.

export const { html, render, useLayoutEffect, useRef } = globalThis.htmPreact;
