"""Time of a translation on the page without a server: `python -m benchmarks static-page [RUN]`; the target is 300 ms.

A 20-token sentence with the run's beam size, traced by the browser's model in headless Chromium. Without RUN, the model
has random weights and the size of Multi30k's: 4 + 4 layers, d_model 128, d_ff 512, 5,500 subwords, a beam of 4; its
outputs are as long as the input, as translations are.
"""

from __future__ import annotations

import functools
import random
import statistics
import tempfile
import threading
from collections.abc import Sequence
from http.server import SimpleHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from typing import Any

import torch
from safetensors.torch import save_file

from benchmarks import command_line
from benchmarks.browser import chromium
from headwise.config import Config
from headwise.interop.runs import open_trained
from headwise.models.build import build_model
from headwise.page.runs import PageRun
from headwise.page.static_page import write_page
from headwise.text.tokens.subwords import Subwords

SENTENCE = "a young man in a blue shirt is riding a brown horse along the beach with two dogs ."
TOKENS = 20
ROUNDS = 20
SIZE = {"encoder_layers": 4, "decoder_layers": 4, "d_model": 128, "d_ff": 512, "heads": 4}
# Times of `ROUNDS` traces in milliseconds, in a worker of its own, after two that compile the code.
MEASURE = """
async ([text, rounds]) => {
  const { BrowserModel } = await import(new URL("js/model/client.js", document.baseURI));
  const model = new BrowserModel(new URL("run/", document.baseURI));
  const times = [];
  let trace = null;
  for (let round = -2; round < rounds; round++) {
    const began = performance.now();
    trace = await model.ask("trace", { text });
    if (round >= 0) times.push(performance.now() - began);
  }
  return { times, source: trace.source.ids.length, target: trace.forced.target.ids.length };
}
"""


def main(arguments: Sequence[str]) -> None:
    parser = command_line("static-page", __doc__)
    parser.add_argument("run", type=Path, nargs="?")
    parser.add_argument("--text")
    options = parser.parse_args(arguments)
    with tempfile.TemporaryDirectory() as scratch:
        run, text = options.run, options.text or SENTENCE
        if run is None:
            run, text = random_run(Path(scratch, "random"))
        page = Path(scratch, "page")
        page.mkdir()
        trained = open_trained(run)
        write_page(trained, PageRun(run.name, run, trained.config, "cpu"), page, None)
        result = measure(page, text)
    times = sorted(result["times"])
    beam = trained.config.decoding.beam
    print(f"{result['source']} source tokens, {result['target']} target tokens, a beam of {beam}")
    slow = times[int(0.9 * len(times))]
    print(f"fastest {times[0]:.0f} ms   median {statistics.median(times):.0f} ms   90 % {slow:.0f} ms")


def measure(page: Path, text: str) -> dict[str, Any]:
    """Open the page in headless Chromium and trace the text there."""
    files = ThreadingHTTPServer(("127.0.0.1", 0), functools.partial(QuietFiles, directory=str(page)))
    threading.Thread(target=files.serve_forever, daemon=True).start()
    address = f"http://127.0.0.1:{files.server_port}"
    with chromium() as browser:
        tab = browser.new_page()
        tab.goto(f"{address}/icon.svg")
        tab.goto(f"{address}/index.html#text=%20")  # blank: the page itself stays idle
        result: dict[str, Any] = tab.evaluate(MEASURE, [text, ROUNDS])
    files.shutdown()
    return result


class QuietFiles(SimpleHTTPRequestHandler):
    def log_message(self, format: str, *args: Any) -> None:
        """Log nothing."""


def random_run(directory: Path) -> tuple[Path, str]:
    """Write a run with random weights and subwords of random words; return it with a sentence of 20 subwords."""
    directory.mkdir()
    config = Config.from_tree(
        {
            "model": {**SIZE, "norm": "pre"},
            "subwords": {"size": 5500},
            "decoding": {"beam": 4, "extra_length": 0},
        }
    )
    letters = random.Random(1)
    words = ["".join(letters.choices("abcdefghijklmnopqrstuvwxyz", k=letters.randint(3, 9))) for _ in range(4000)]
    lines = [" ".join(letters.choices(words, k=10)) for _ in range(4000)]
    subwords = Subwords.train(lines[:2000], lines[2000:], config.subwords, directory)
    torch.manual_seed(1)
    network = build_model(config.model, subwords.source_size, subwords.target_size)
    save_file(dict(network.named_parameters()), directory / "model.safetensors")
    (directory / "config.yaml").write_text(config.to_yaml(), encoding="utf-8")
    sentence: list[str] = []
    for word in words:
        if len(subwords.encode_source(" ".join([*sentence, word]))) <= TOKENS:
            sentence.append(word)
    return directory, " ".join(sentence)
