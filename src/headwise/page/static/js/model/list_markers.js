/** The marker of a list's item isn't read, by the rule of `headwise.documents.list_markers`. */

import { hasLetters } from "./subwords.js";

const POINTED = ["en", "es", "fr", "it", "nl", "pt"]; // languages in which what has a full stop is no ordinal
const LETTER = String.raw`(?:[a-z]|[ivx]{2,5}|[IVX]{1,5})\.(?=\s+[A-Z][a-z])`;
const NUMBERED = String.raw`\(?(?:[0-9]{1,3}|[A-Za-z]|[ivxIVX]{1,5})\)|(?<pointed>[0-9]{1,3}\.|${LETTER})|\[[ xX]?\]`;
const BULLET = String.raw`[\-–—*+>#·•‣⁃→⇒]|(?=[\u2000-\u{10ffff}])[\p{So}\p{Mn}\p{Cf}]`;
const MARKER = new RegExp(String.raw`\s*(?:${NUMBERED}|(?:${BULLET}){1,4})\s+(?=\S)`, "uy");

/**
 * A line without the markers at its beginning, if a word is behind them.
 * @param {string} text
 * @param {string | null} language  the code of its language, if it is known
 */
export function withoutMarkers(text, language) {
  let end = 0;
  for (;;) {
    MARKER.lastIndex = end;
    const found = MARKER.exec(text);
    if (!found || (found.groups?.pointed && !POINTED.includes(language ?? ""))) break;
    end = MARKER.lastIndex;
  }
  return hasLetters(text.slice(end)) ? text.slice(end) : text;
}
