// What `make lint` asks of the page's scripts. Browsers' names are listed, so that none is shadowed unseen.

import js from "@eslint/js";

const BROWSER = [
  "atob",
  "Blob",
  "DecompressionStream",
  "document",
  "fetch",
  "getComputedStyle",
  "history",
  "location",
  "OffscreenCanvas",
  "Response",
  "setTimeout",
  "TextDecoder",
  "URL",
  "URLSearchParams",
  "window",
];

export default [
  js.configs.recommended,
  {
    languageOptions: {
      ecmaVersion: 2024,
      sourceType: "module",
      globals: Object.fromEntries(BROWSER.map((name) => [name, "readonly"])),
    },
    linterOptions: { reportUnusedDisableDirectives: "error" },
    rules: {
      camelcase: "error",
      complexity: ["error", 20],
      "consistent-return": "error",
      eqeqeq: "error",
      "max-len": ["error", { code: 120 }],
      "max-params": ["error", 7],
      "no-nested-ternary": "error",
      "no-param-reassign": "error",
      "no-redeclare": ["error", { builtinGlobals: true }],
      "no-shadow": ["error", { builtinGlobals: true, hoist: "all" }],
      "no-use-before-define": ["error", { functions: false, variables: false }],
      "no-var": "error",
      "prefer-const": "error",
    },
  },
];
