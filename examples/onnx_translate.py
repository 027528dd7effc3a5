"""Beam search with ONNX Runtime: headwise export RUN --to onnx -o DIR, then python onnx_translate.py DIR < FILE."""

import itertools
import json
import sys
from pathlib import Path

import numpy as np
from onnxruntime import InferenceSession
from sentencepiece import SentencePieceProcessor


def search(encoder, decoder, sources, lettered, options):
    """Return the best translation of each source; both are lists of ids. `options` are those of headwise.json.

    Where a source is `lettered`, which is to have a letter or a digit, so is its translation.
    """
    n, beam, pad, end = len(sources), options["beam"], options["pad"], options["end"]
    source = np.array(list(itertools.zip_longest(*([*ids, end] for ids in sources), fillvalue=pad))).T
    mask = source != pad
    limits = np.minimum(mask.sum(1) + options["extra_length"], options["max_length"])
    memory = encoder.run(None, {"source": source, "mask": mask})
    cache = [np.zeros((n * beam, heads, 0, size), np.float32) for heads, size in options["cache"]]
    token, parent, texts = np.full(n * beam, options["begin"]), np.arange(n * beam), [[]] * n * beam
    lacking = np.repeat(lettered, beam)  # the hypotheses that still need a letter
    totals = np.full((n, beam), -np.inf, np.float32)
    totals[:, 0] = 0  # one empty hypothesis, not several equal ones
    best, ended, length, take = [(-np.inf, [])] * n, np.zeros(n), 0, np.take_along_axis
    while totals.max() > -np.inf:
        length += 1
        inputs = token.ravel(), parent.ravel(), mask, *memory, *cache
        feed = {each.name: value for each, value in zip(decoder.get_inputs(), inputs, strict=True)}
        *cache, scores = decoder.run(None, feed)
        scores[:, options["never"]] = -np.inf
        last = np.repeat(limits <= length, beam)
        scores[lacking, end] = -np.inf
        scores[np.ix_(lacking & np.repeat(limits <= length + 1, beam), options["letterless"])] = -np.inf
        scores[last, :end] = scores[last, end + 1 :] = -np.inf
        size, scores = scores.shape[1], (totals.reshape(-1, 1) + scores).reshape(n, -1)
        top = np.argpartition(-scores, 2 * beam)[:, : 2 * beam]
        top = take(top, np.argsort(-take(scores, top, 1)), 1)  # the 2 · beam best continuations, best first
        totals, parent, token = take(scores, top, 1), top // size + beam * np.arange(n)[:, None], top % size
        for i, rank in np.argwhere(((token == end) & (totals > -np.inf))[:, :beam]):
            score = totals[i, rank] / ((5 + length) / 6) ** options["alpha"]
            best[i], ended[i] = max(best[i], (score, texts[parent[i, rank]])), ended[i] + 1
        totals[token == end] = -np.inf
        live = np.argsort(token == end, kind="stable")[:, :beam]  # those that don't end first
        totals, parent, token = (take(each, live, 1) for each in (totals, parent, token))
        lacking = (lacking[parent] & np.isin(token, options["letterless"])).ravel()
        reachable = totals.max(1) / ((5 + limits) / 6) ** options["alpha"]
        totals[(ended >= beam) | (reachable <= [score for score, _ in best])] = -np.inf  # decided
        texts = [[*texts[row], new] for row, new in zip(parent.flat, token.flat, strict=True)]
    return [ids for _, ids in best]


if __name__ == "__main__":
    folder = Path(sys.argv[1])
    options = json.loads((folder / "headwise.json").read_bytes())
    encoder, decoder = (InferenceSession(folder / f"{name}.onnx") for name in ("encoder", "decoder"))
    source, target = (SentencePieceProcessor(str(folder / name)) for name in options["subwords"])
    vocabulary = json.loads((folder / "vocabulary.json").read_bytes())
    ids = {piece: number for number, piece in enumerate(vocabulary["source"]) if number > options["end"]}
    pieces, longest = vocabulary.get("target", vocabulary["source"]), options["max_length"] - 1
    while lines := list(itertools.islice(sys.stdin, 64)):
        lettered = [any(map(str.isalnum, line)) for line in lines]
        texts = [source.encode(line.strip(), out_type=str) for line in lines]
        sources = [[ids.get(piece, options["unknown"]) for piece in text[:longest]] for text in texts]
        for each, found in zip(sources, search(encoder, decoder, sources, lettered, options), strict=True):
            print(target.decode([pieces[number] for number in found]) if each else "")
