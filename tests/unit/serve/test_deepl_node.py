"""DeepL's client for Node.js, where HEADWISE_DEEPL_NODE names a folder in which `npm install deepl-node` was run."""

from __future__ import annotations

import json
import os
import subprocess
from pathlib import Path

import pytest

pytest.importorskip("starlette", reason="needs pip install 'headwise[serve]'")

from headwise.engine.translator import Translator
from headwise.serve.translation.glossaries import GlossaryStore
from translation_server import make_pair, translating
from translator_run import ENGLISH

FOLDER = os.environ.get("HEADWISE_DEEPL_NODE")
PROGRAM = """
const { DeepLClient, GlossaryEntries } = require("deepl-node");
const client = new DeepLClient("KEY", { serverUrl: process.argv[1] });
(async () => {
    const texts = JSON.parse(process.argv[2]);
    const found = await client.translateText(texts, "en", "de");
    const status = await client.translateDocument(process.argv[3], process.argv[4], "en", "de");
    const languages = await client.getTargetLanguages();
    const entries = new GlossaryEntries({ entries: { horse: "Katze" } });
    const made = await client.createGlossary("animals", "en", "de", entries);
    const listed = await client.listGlossaries();
    const kept = await client.getGlossaryEntries(made);
    const placed = await client.translateText(texts[0], "en", "de", { glossary: made });
    await client.deleteGlossary(made);
    const several = await client.createMultilingualGlossary("more", [
        { sourceLangCode: "en", targetLangCode: "de", entries },
    ]);
    await client.deleteMultilingualGlossary(several);
    console.log(JSON.stringify({
        texts: found.map((each) => each.text), status: status.status, codes: languages.map((each) => each.code),
        kept: kept.entries(), listed: listed.length, placed: placed.text.includes("Katze"),
        several: several.dictionaries.map((each) => each.entryCount),
    }));
})();
"""


@pytest.mark.skipif(FOLDER is None, reason="needs HEADWISE_DEEPL_NODE, a folder with deepl-node")
def test_it_translates_as_the_library(tmp_path: Path) -> None:
    run = make_pair(tmp_path, "en", "de")
    (tmp_path / "in.txt").write_text(ENGLISH[0], encoding="utf-8")
    files = [str(tmp_path / "in.txt"), str(tmp_path / "out.txt")]
    store = GlossaryStore(tmp_path / "glossaries.db")
    with translating([run], glossaries=store) as address:
        command = ["node", "-e", PROGRAM, address, json.dumps(ENGLISH[:2]), *files]
        done = subprocess.run(command, cwd=FOLDER, capture_output=True, text=True, timeout=120, check=True)
    expected = [translation.text for translation in Translator.load(run, device="cpu").translate(ENGLISH[:2])]
    answer = json.loads(done.stdout)
    assert (answer["texts"], answer["status"], answer["codes"]) == (expected, "done", ["de"])
    assert (answer["kept"], answer["listed"], answer["placed"]) == ({"horse": "Katze"}, 1, True)
    assert answer["several"] == [1]
    assert (tmp_path / "out.txt").read_text(encoding="utf-8") == expected[0]
