// A page that is a file: it holds all that it shows.

import { inputs, textsOfFile } from "./data.js";
import { start } from "./app.js";

await start(textsOfFile(inputs[0]));
