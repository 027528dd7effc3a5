// Splits texts and joins pieces with the page's SentencePiece: `node split_page.mjs MODEL < REQUEST`.

import { readFileSync } from "node:fs";
import { SentencePiece } from "../../src/headwise/page/static/js/model/sentencepiece.js";

const model = new SentencePiece(new Uint8Array(readFileSync(process.argv[2])).buffer);
const { texts, pieces } = JSON.parse(readFileSync(0, "utf8"));
process.stdout.write(
  JSON.stringify({ pieces: texts.map((text) => model.split(text)), texts: pieces.map((row) => model.join(row)) }),
);
