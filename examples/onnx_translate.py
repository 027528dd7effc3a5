"""Beam search with ONNX Runtime alone: headwise export RUN --to onnx -o DIR; python onnx_translate.py DIR < FILE."""

import json
import sys
from pathlib import Path

import numpy as np
from onnxruntime import InferenceSession
from sentencepiece import SentencePieceProcessor


def search(encoder, decoder, sources, options):
    """Return the best translation of each source, as ids; `options` is the content of headwise.json."""
    beam, end, n = options["beam"], options["end"], len(sources)
    lengths = np.array([len(ids) for ids in sources])
    limits = np.minimum(lengths + options["extra_length"], options["max_length"])
    mask = np.arange(lengths.max()) < lengths[:, None]
    source = np.full(mask.shape, options["pad"])
    source[mask] = np.concatenate(sources)
    memory = dict(zip([each.name for each in encoder.get_outputs()], encoder.run(None, {"source": source, "mask": mask})))
    shapes = {each.name: each.shape for each in decoder.get_inputs() if each.name.startswith("past")}
    past = {name: np.zeros((n * beam, heads, 0, size), np.float32) for name, (_, heads, _, size) in shapes.items()}
    token, parent = np.full(n * beam, options["begin"]), np.arange(n * beam)
    tokens, totals = np.zeros((n, beam, 0), int), np.where(np.arange(beam) == 0, [[0.0]] * n, -np.inf)
    best, ended, finished = [(-np.inf, [])] * n, np.zeros(n), np.zeros(n, bool)
    for length in range(1, limits.max() + 1):
        *present, log_probs = decoder.run(None, {"token": token, "parent": parent, "mask": mask} | past | memory)
        past = dict(zip(past, present))
        log_probs[:, [options["pad"], options["begin"], options["unknown"]]] = -np.inf
        log_probs[np.ix_(np.repeat(length >= limits, beam), np.arange(log_probs.shape[1]) != end)] = -np.inf
        scores = (totals[:, :, None] + log_probs.reshape(n, beam, -1)).reshape(n, -1)
        top = np.argpartition(-scores, 2 * beam - 1)[:, : 2 * beam]
        top = np.take_along_axis(top, np.argsort(-np.take_along_axis(scores, top, 1)), 1)  # the best first
        scores, (row, new) = np.take_along_axis(scores, top, 1), np.divmod(top, log_probs.shape[1])
        ends = new == end
        penalty = ((5 + np.array(length)) / 6) ** options["alpha"]
        for i, rank in np.argwhere(ends[:, :beam] & (scores[:, :beam] > -np.inf) & ~finished[:, None]):
            ended[i] += 1
            best[i] = max(best[i], (scores[i, rank] / penalty, tokens[i, row[i, rank]].tolist()))
        live = np.argsort(ends, kind="stable")[:, :beam]  # those that don't end first
        totals = np.take_along_axis(np.where(ends, -np.inf, scores), live, 1)
        row, new = np.take_along_axis(row, live, 1), np.take_along_axis(new, live, 1)
        tokens = np.concatenate([np.take_along_axis(tokens, row[..., None], 1), new[..., None]], 2)
        token, parent = new.ravel(), (row + beam * np.arange(n)[:, None]).ravel()
        reachable = totals.max(1) / ((5 + limits) / 6) ** options["alpha"]
        finished |= (ended >= beam) | (reachable <= [score for score, _ in best])
        if finished.all():
            break
    return [ids for _, ids in best]
