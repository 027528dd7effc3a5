"""Bad arguments of every command: exit code 2, one sentence that names the key, and nothing is written.

A row has the arguments and the key. In the arguments, upper-case words stand for runs and files (see `words`).
"""

from __future__ import annotations

import os
import re
from pathlib import Path

import numpy as np
import pytest
import yaml
from matplotlib.image import imsave

from image_run import make_image_run
from language_model_run import make_language_model_run, make_masked_model_run
from paths import CONFIGS
from program import Call
from toy import Toy
from translator_run import make_run

HUGE = "1" + "0" * 20
DIGITS = "9" * 5000
A_TEXT = "ein-Text-" * 40  # in place of a file, and longer than a file's name may be
TEST = "--source TEXT --reference TEXT"

PROGRAM = [
    ("trian", "train"),
    ("--verbose", "--verbose"),
    ("train --sorce x", "--sorce"),
    ("data nothing", "nothing"),
    ("analyze nothing", "nothing"),
    ("keys nothing", "nothing"),
]
TRAIN = [
    ("", "-o"),
    ("--max-steps many -o NEW", "--max-steps"),
    ("--max-steps 0 -o NEW", "--max-steps"),
    ("-o NEW", "--source"),
    ("-c nowhere.yaml", "nowhere.yaml"),
    ("-c TOY -o NEW model.droput=0.2", "model.dropout"),
    ("-c TOY -o NEW dropout=0.2", "model.dropout"),
    ("-c TOY -o NEW model.dropout=1.5", "model.dropout"),
    ("-c TOY -o NEW model.heads=3", "heads"),
    ("-c TOY -o NEW model.attention=quick", "attention"),
    ("-c TOY -o NEW model.architecture=transfomer", "model.architecture"),
    ("-c TOY -o NEW schedule.name=cosine", "schedule"),
    ("-c TOY -o NEW training.log_every=0", "training.log_every"),
    ("-c TOY -o NEW training.precision=float16", "training.precision"),
    ("-c TOY -o NEW training.best_by=bleu training.validate_bleu=false", "validate_bleu"),
    ("-c TOY -o NEW subwords.joint=false", "model.share_embeddings"),
    ("-c TOY -o NEW data.weights=[1,2]", "data.weights"),
    ("-c TOY -o NEW training", "training"),
    ("-c TOY -o NEW --gpu h100", "--gpu"),
    ("-c TOY -o NEW --estimate --gpu=a9000", "--gpu"),
    ("-c TOY -o NEW --gpu=a100", "--estimate"),
    ("-c TOY -o NEW --estimate --watts=-1", "--watts"),
    ("-o NEW --mix TOY=0.5", "--mix"),
    *((f"-o NEW -c TOY --mix RUN{share}", "--mix") for share in ("", "=", "=2", "=x", "=0")),
    ("-o NEW -c TOY --mix RUN=0.6 --mix RUN=0.5", "--mix"),
    ("--from nowhere --source TEXT --target TEXT -o NEW", "training.initialize_from: nowhere"),
    ("-c TOY -o NEW training.add_subwords=2", "training.initialize_from"),
    *(
        (f"-c TOY -o NEW training.processes={value}", "training.processes")
        for value in ("0", "-1", "many", "1.5", "true", "5000")
    ),
    ("-c LM/config.yaml -o NEW task=music", "task"),
    ("-c LM/config.yaml -o NEW language_model.windows=3", "language_model.windows"),
    ("-c LM/config.yaml -o NEW data.source=[a]", "data.source"),
    ("-c LETTERS -o NEW model.segments=2", "model.segments"),
    ("--source TEXT -o NEW", "data.target"),
    ("-c LM/config.yaml -o NEW language_model.window=65", "language_model.window"),
    ("-c LM/config.yaml -o NEW training.best_by=bleu", "training.best_by"),
    ("-c LM/config.yaml -o NEW task=translation language_model.window=9", "language_model"),
    ("-c LABELS -o NEW classification.labels=[good]", "classification.labels"),
    ("-c LABELS -o NEW classification.fold=2", "fold"),
    ("-c LABELS -o NEW model.max_length=2", "model.max_length"),
    ("-c LABELS -o NEW tagging.spans=true", "tagging"),
    ("-c LABELS -o NEW data.source=[a]", "data.source"),
    ("-c LABELS -o NEW classification.labels=[a,b] model.decoder_layers=2", "model.decoder_layers"),
    ("-c LABELS -o NEW training.best_by=bleu", "training.best_by"),
    ("-c LABELS -o NEW data.text=[nowhere.tsv]", "nowhere.tsv"),
]
TRANSLATE = [
    ("", "argument"),
    ("nowhere", "nowhere"),
    ("RUN NONE", "NONE"),
    ("LM", "LM"),
    ("RUN TEXT --source-field text", "--source-field"),
    ("RUN TEXT -o OTHER --target-field text", "--target-field"),
    ("RUN --source-field text", "--source-field"),
    ("RUN TEXT --beam 0", "beam"),
    (f"RUN TEXT --beam {HUGE}", "beam"),
    ("RUN TEXT --alpha 1e300", "alpha"),
    ("RUN TEXT --alpha nan", "alpha"),
    ("RUN TEXT --n-best 9", "n_best"),
    ("RUN TEXT -s patience=.nan", "-s patience"),
    ("RUN TEXT -s top_k=5", "-s top_k"),
    ("RUN TEXT -s temperature=0 -s sample=true", "-s temperature"),
    ("RUN TEXT -s paitence=2", "patience"),
    ("RUN TEXT -s patience", "-s"),
    ("RUN TEXT -s =2", "-s"),
    ("RUN TEXT -s seed=[1", "-s seed"),
    ("RUN TEXT -s seed=1.5", "-s seed"),
    ("RUN TEXT -s sample=1", "-s sample"),
    ("RUN TEXT -s min_length=9 -s max_length=3", "-s min_length"),
    ("RUN TEXT -s beam=3 --beam 4", "-s beam"),
    ("RUN TEXT -s guard=true -s sample=true", "-s guard"),
    ("RUN TEXT --ignore-case", "--ignore-case"),
    ("RUN TEXT --glossary NONE", "NONE"),
    ("RUN TEXT --glossary TERMS -s sample=true", "glossary"),
    ("RUN TEXT --glossary TERMS -o TERMS", "TERMS"),
    ("RUN TEXT -o TEXT", "TEXT"),
    ("RUN SHORT -o TEXT/out", "TEXT/out"),
    ("RUN TEXT --restart", "--restart"),
    ("RUN TEXT --on-bad-line empty", "--on-bad-line"),
    ("RUN TEXT --on-bad-line skip -o out", "--on-bad-line"),
    ("RUN TEXT --scores -o out.parquet", "out.parquet"),
    ("RUN TEXT --n-best 2 -o out.jsonl", "out.jsonl"),
    ("RUN -o out.gz", "out.gz"),
    ("RUN -o out.jsonl", "out.jsonl"),
    ("RUN - -o out.html", "out.html"),
    ("RUN TEXT --engine ray", "--engine ray"),
    ("RUN TEXT --engine fast", "engine"),
    ("RUN TEXT --device quantum", "device"),
    ("RUN TEXT --precision int3", "precision"),
    ("RUN TEXT --shortlist", "shortlist"),
]
PREDICT = [
    ("nowhere", "nowhere"),
    ("RUN TEXT", "translation"),
    ("RUN --prompt a", "--prompt"),
    ("MASKED TEXT -n 2", "-n"),
    ("MASKED TEXT -s top_k=2", "-s"),
    ("MASKED TEXT", "TEXT line 1"),
    ("LM TEXT", "TEXT line 1"),
    ("LM TEXT -n 2", "-n"),
    ("LM TEXT --prompt a", "--prompt"),
    ("LM --prompt Ω", "prompt"),
    ("LM --prompt the -s temperature=-1", "-s temperature"),
    ("LM --prompt the -s temperature=hot", "-s temperature"),
    ("LM --prompt the -s top_p=0", "-s top_p"),
    ("LM --prompt the -s max_tokens=0", "-s max_tokens"),
    ("LM --prompt the -s beam=3", "-s beam"),
]
EVALUATE = [
    ("RUN", "--source"),
    ("RUN --source TEXT", "--reference"),
    ("RUN file.txt", "--source"),
    ("RUN --source TEXT --reference SHORT", "1"),
    (f"RUN {TEST} --source SHORT", "--reference"),
    (f"RUN OTHER {TEST} -o NEW", "-o"),
    (f"RUN {TEST} -o - --json", "-o -"),
    (f"RUN . {TEST}", "config.yaml"),
    (f"RUN {TEST} --tokenize morse", "--tokenize"),
    (f"RUN {TEST} --metric ter --compare RUN", "metric"),
    (f"RUN {TEST} --beam 0", "beam"),
    (f"RUN {TEST} -s patience=0", "-s patience"),
    (f"RUN {TEST} --jsonl", "--jsonl"),
    (f"RUN {TEST} --metric chrf", "--metric"),
    (f"RUN {TEST} --samples 7", "--samples"),
    (f"RUN OTHER {TEST} --with OTHER", "--with"),
    (f"RUN --per-line {TEST} --beam 3", "--beam"),
    (f"RUN --per-line {TEST} -s patience=3", "-s patience"),
    (f"RUN --per-line {TEST} --json", "--json"),
    (f"RUN --per-line {TEST} --compare RUN", "--compare"),
    (f"RUN OTHER --per-line {TEST}", "OTHER"),
    (f"RUN --per-line {TEST} {TEST}", "--source"),
    (f"RUN --per-line {TEST} --alpha -1", "alpha"),
    ("LM --beam 4", "--beam"),
    ("LM -s patience=2", "-s"),
    ("LM --per-line --source TEXT --reference TEXT", "--source"),
    ("LM missing.txt", "missing.txt"),
    ("LM --set language_model.stride=99", "language_model.stride"),
    ("LM --set data.dev_text=TEXT", "--set data.dev_text"),
    ("LM --set model.droput=0", "model.dropout"),
    ("LM --engine native", "--engine"),
    ("LM -o NEW", "-o"),
    ("LM TEXT -o TEXT", "TEXT"),
    ("MASKED -o NEW", "-o"),
]
SERVE = [
    ("NONE", "NONE"),
    ("RUN RUN", "RUN twice"),
    ("RUN --source x", "--target"),
    ("RUN --gold x", "--gold"),
    ("RUN --source TEXT --target TEXT --gold FROM_1", "FROM_1 line 2"),
    ("RUN --tokenized", "--tokenized"),
    ("RUN --host *", "--host"),
    ("RUN --lowercase", "--lowercase"),
    ("RUN --allow-host http://lab", "--allow-host"),
    ("RUN -s guards=true", "-s guards"),
    ("RUN -s beam=0", "-s beam"),
    ("RUN -s n_best=2", "-s n_best"),
    ("RUN -s sample=true -s guard=true", "-s guard"),
    ("RUN --limit-seconds nan", "--limit-seconds"),
]
EXPLAIN = [
    ("RUN", "--text"),
    ("RUN --text a -o a.pdf", "a.pdf"),
    ("RUN --text a --do silence:cross.7.1", "silence:cross.7.1"),
    ("RUN --text a --hypothesis 9", "hypothesis"),
    ("RUN --text a --hypothesis 1 --target b", "--hypothesis"),
    ("RUN --text a --head 9.9 -o a.png", "head"),
    (f"RUN --text a --head 1.{DIGITS} -o a.png", "head"),
    ("RUN --text a --head 1.² -o a.png", "head"),
    ("RUN --text a --head 1.1", "--head"),
    ("RUN --text a --part encoder -o a.html", "--part"),
    ("RUN --text a --tree -o a.html", "--tree"),
    *((f"RUN --text a -o a.{name} --words", "--words") for name in ("html", "json")),
    *(
        (f"RUN --text a {one} {option}", option.partition(" ")[0])
        for one in ("--recurrence", "--boxes", "--box softmax")
        for option in ("--word 1", "--words", "--tree", "--steps")
    ),
    *(
        (f"RUN --text a --recurrence {option}", option.partition(" ")[0])
        for option in ("--target b", "--hypothesis 1", "--beam 2", "--alpha 1", "-s patience=2")
    ),
    ("RUN --text a -s guard=true", "-s guard"),
    ("RUN --text a --word Katze", "word"),
    (f"RUN --text a --word {DIGITS}", "word"),
    ("RUN --text a --word ٣", "word"),
    ("RUN --text a -s patience=0", "-s patience"),
    ("RUN --text a --boxes --box softmax", "--boxes"),
    ("RUN --text a --layer 1", "--layer"),
    ("RUN --text a --box projection --temperature 2", "--temperature"),
    ("RUN --text a --box softmax -o box.png", "box.png"),
    ("RUN --text a --box encoder.self-attention.norm", "encoder.self-attention.norm"),
    ("RUN --text a --radius 2", "--radius"),
    ("RUN --text a --recurrence --boxes", "--recurrence"),
    ("RUN --text a --recurrence -o picture.png", "picture.png"),
    ("LM --text the --beam 3", "--beam"),
    ("LM --text the -s patience=2", "-s patience"),
    ("LM --text the --tree", "--tree"),
    ("LM --boxes", "--text"),
]
EXPLAIN_IMAGES = [
    ("DIGITS -o p.png", "--row"),
    ("DIGITS --text a", "image_classification"),
    ("DIGITS --row 1", "-o"),
    ("DIGITS --row 600 -o p.png", "--row"),
    ("DIGITS --row 600 --boxes", "--row"),
    ("DIGITS --row 6 -o p.jpg", "p.jpg"),
    ("DIGITS --row 6 --image NONE -o p.png", "--image"),
    ("DIGITS --image NONE -o p.png", "NONE"),
    ("DIGITS --image seven.png -o seven.png", "seven.png"),
    ("DIGITS --row 6 --text seven -o p.png", "--text"),
    ("DIGITS --row 6 --box classifier --text seven", "--text"),
    ("DIGITS --row 6 --beam 2 -o p.png", "--beam"),
    ("DIGITS --row 6 -s patience=2 -o p.png", "-s"),
    ("DIGITS --row 6 --words -o p.png", "--words"),
    ("DIGITS --row 6 --do silence:encoder.1.1 -o p.png", "--do"),
    ("DIGITS --row 6 --part encoder -o p.png", "--part"),
    ("DIGITS --row 6 --boxes --device abacus", "device"),
]
OTHERS_OF_IMAGES = [
    ("evaluate DIGITS some.png", "image_classification"),
    ("translate DIGITS", "DIGITS"),
    ("train -c DIGITS/config.yaml -o NEW data.text=[a]", "data"),
    ("train -c DIGITS/config.yaml -o NEW model.decoder_layers=2", "model.decoder_layers"),
    ("train -c DIGITS/config.yaml -o NEW image_classification.patch=3", "patch"),
    ("train -c DIGITS/config.yaml -o NEW model.max_length=16", "model.max_length"),
    ("train -c DIGITS/config.yaml -o NEW image_classification.source=nowhere", "nowhere"),
    ("train -c CAPTIONS -o NEW model.max_length=9", "model.max_length"),
    ("train -c CAPTIONS -o NEW image_text.source=x", "image_text.source"),
    ("train -c CAPTIONS -o NEW image_text.canvas=11", "image_text.canvas"),
]
ANALYZE = [
    ("heads RUN", "--source"),
    ("heads RUN --miniature -o heads.svg", "heads.svg"),
    ("heads RUN --source BLANK --target BLANK -o heads.png", "heads"),
    ("heads RUN --source LONG --target LONG --importance", "model.max_length"),
    ("heads STATES --source TEXT", "model.attention"),
    *(
        (f"heads RUN --miniature {option}", option.partition(" ")[0])
        for option in ("--target TEXT", "--tokenized", "--lowercase")
    ),
    ("heads LM --source TEXT --target TEXT", "--target"),
    ("heads LM --source TEXT --importance", "--importance"),
    ("heads RUN --source TEXT --prune alphabetical", "--prune"),
    ("heads RUN --source TEXT --points 3", "--points"),
    ("align RUN", "--source"),
    ("align RUN --source TEXT", "--target"),
    ("align RUN --source TEXT --target TEXT --rule best", "--gold"),
    ("align RUN --source TEXT --target TEXT --symmetrize xor --reverse OTHER", "symmetrize"),
    ("align RUN --source TEXT --target TEXT --symmetrize union", "--reverse"),
    ("align RUN --source TEXT --target TEXT --reverse-rule 1", "--reverse-rule"),
    ("align RUN --source LONG --target LONG", "line 1"),
    ("align RUN --source TEXT --target TEXT --gold LINKS -o LINKS", "LINKS"),
    ("align RUN --source TEXT --target TEXT --gold FROM_1", "FROM_1 line 2"),
    ("heads RUN --source TEXT --train-source TEXT", "--train-target"),
    *(("align RUN --source TEXT --target TEXT --rule " + n, "rule") for n in (DIGITS, "²", "٣")),
    ("attribute RUN", "--text"),
    ("attribute RUN --source TEXT --target SHORT", "SHORT"),
    ("attribute RUN --source SHORT --target TEXT", "TEXT"),
    (f"calibration RUN {TEST} -o c.jpg", "c.jpg"),
    ("calibration RUN --source TEXT --reference SHORT", "1"),
    ("calibration RUN --source BLANK --reference BLANK", "predicted token"),
    (f"calibration RUN {TEST} --beam 0", "beam"),
]
REPRODUCE = [
    ("table9", "table"),
    ("table4", "table"),
    ("table9 --show", "--show"),
    ("table2 --json", "--json"),
    ("table2 --scale tinny", "tiny"),
    ("table2 --show --scale tinny", "tiny"),
    ("table1 --show --json --scale tinny", "tiny"),
    ("all --scale wmt14", "wmt14"),
    ("wmt14 --scale tiny", "--scale"),
    ("norm --scale multi30k", "--scale"),
    ("text-size --scale multi30k", "multi30k"),
    ("trials --scale wmt14", "wmt14"),
    ("trials --scale wmt14 --dry-run", "wmt14"),
    ("ingredients --scale open-en-de", "open-en-de"),
    ("table2 --rows table2-luong --results NONE", "trials"),
    ("table2 --gpu h100", "--dry-run"),
    ("table2 --price 2", "--dry-run"),
    ("wmt14 --dry-run --gpu h1000", "--gpu"),
    ("all --seeds 1", "--seeds"),
    ("all --threads 2", "--threads"),
    ("list --rows table3-base", "--rows"),
    ("report --dry-run", "--dry-run"),
    ("report --out NEW", "--out"),
    ("report --scale tiny", "--scale"),
    ("report --results NONE", "NONE"),
    ("table3 --show --rows table3-base", "--rows"),
    ("table3 --show --gpu h100", "--gpu"),
    ("all --rows nothing", "--rows"),
    ("complexity --seeds one", "--seeds"),
    (f"sqrt-dk --seeds {DIGITS}", "--seeds"),
    ("table3 --scale wmt14 --rows h1", "table3-base"),
    ("report --results NONE", "--results"),
]
EXPORT = [
    ("RUN --to nothing -o NEW", "--to"),
    ("RUN --to run -o NEW", "--precision"),
    ("RUN --to run --precision int8 -o OTHER", "OTHER"),
    ("RUN --to run --precision int4 -o NEW", "--precision"),
    ("RUN --to run --average 4 -o NEW", "checkpoints"),
    ("RUN --to run --average 0 -o NEW", "--average"),
    ("RUN --to run --shortlist -o NEW", "prepared"),
    ("RUN --to run --precision int8 --from-language en -o NEW", "--from-language"),
    (". --to run --precision int8 -o NEW", "."),
    ("RUN --to huggingface --average 2 -o NEW", "--average"),
    ("RUN --to huggingface --with RUN -o NEW", "--with"),
    ("RUN --to run --average 1 --with RUN -o NEW", "--average"),
    ("RUN --to huggingface --shortlist -o NEW", "--shortlist"),
    ("RUN --to huggingface --precision int4 -o NEW", "--precision"),
    ("RUN --to page --precision int4 -o NEW", "--precision"),
    ("RUN --to page --from-language en -o NEW", "--from-language"),
    ("RUN --to marian --to-language de -o NEW", "--to-language"),
    ("RUN --to huggingface --to-language ../x -o NEW", "--to-language"),
]
IMPORT = [
    ("NONE -o NEW", "NONE"),
    ("TEXT -o NEW", "TEXT"),
    ("RUN -o NEW --format nothing", "--format"),
    ("RUN -o NEW --languages en", "--languages"),
]
DATA = [
    ("get tanka", "tanaka"),
    ("prepare -o NEW", "--source"),
    ("prepare --source NONE --target NONE -o NEW", "NONE"),
    ("prepare --source TEXT --target SHORT --identify-languages -o NEW", "--languages"),
    ("prepare --source TEXT --target TEXT --languages en-de -o NEW", "--identify-languages"),
    ("prepare --source TEXT --target TEXT --keep-duplicates --near -o NEW", "--near"),
    ("prepare --source TEXT --target TEXT --subwords 3 -o NEW", "--subwords"),
    ("prepare --source TEXT --target TEXT --subwords 99 --subwords-from RUN -o NEW", "--subwords"),
    ("prepare --source TEXT --target TEXT --sample 99 --subwords-from RUN -o NEW", "--sample"),
    ("prepare --source TEXT --target TEXT --dev-pairs 9 --dev-source t.tsv -o NEW", "--dev-pairs"),
    ("prepare --source TEXT --target TEXT --dev-target TEXT -o NEW", "--dev-source"),
    ("prepare --source TEXT --target TEXT --dev-source TEXT -o NEW", "TEXT"),
    ("prepare --source TEXT --target TEXT --filter nowhere:keep -o NEW", "nowhere"),
]
COMMANDS = {
    "train": TRAIN,
    "translate": TRANSLATE,
    "predict": PREDICT,
    "evaluate": EVALUATE,
    "serve": SERVE,
    "explain": EXPLAIN,
    "analyze": ANALYZE,
    "reproduce": REPRODUCE,
    "export": EXPORT,
    "import": IMPORT,
    "data": DATA,
    "keys": [("list NONE", "NONE"), ("add keys.db alice --requests 0", "--requests")],
    "learn": [("NONE", "NONE"), ("LM --port 70000", "--port")],
    "demo": [("--seed -1", "--seed")],
}
ROWS = [
    *PROGRAM,
    *((f"{name} {arguments}".strip(), key) for name, rows in COMMANDS.items() for arguments, key in rows),
    *(
        (command.replace("A_TEXT", A_TEXT), A_TEXT)
        for command in (
            "translate RUN A_TEXT",
            "translate A_TEXT",
            "translate RUN TEXT -o A_TEXT",
            "evaluate A_TEXT",
            "explain A_TEXT --text a",
            "serve RUN --api-keys A_TEXT",
            "train -c A_TEXT",
            "train --source TEXT --target TEXT -o A_TEXT",
            "export RUN --to run --precision int8 -o A_TEXT",
            "import A_TEXT -o NEW",
            "demo -o A_TEXT",
        )
    ),
]
LATE = [  # a line is at fault, and those before it are written
    ("translate RUN BINARY", "BINARY line 2"),
    ("translate RUN TEXT --prefix-file SHORT", "line 2"),
    ("evaluate RUN --per-line --source TEXT --reference SHORT", "SHORT"),
]
IMAGE_ROWS = [*((f"explain {arguments}", key) for arguments, key in EXPLAIN_IMAGES), *OTHERS_OF_IMAGES]


@pytest.fixture(scope="module")
def words(toy: Toy, tmp_path_factory: pytest.TempPathFactory) -> dict[str, str]:
    """What the upper-case words stand for."""
    folder = tmp_path_factory.mktemp("bad")
    files = {
        "TEXT": b"A man.\nA dog.\n",
        "SHORT": b"Ein Mann.\n",
        "BINARY": b"A man.\n\xff\xfe\x00\n",
        "TERMS": b"man\tMann\n",
        "LINKS": b"0-0\n0-0\n",
        "FROM_1": b"1-1\n1-1 2-2\n",
        "BLANK": b"\n",
        "LONG": b"A man. " * 500 + b"\n",
        "good": b"a fine film\na good one\n" * 9,
        "bad": b"a poor film\na bad one\n" * 9,
    }
    for name, task, kind, text in (
        ("LABELS", "classification", "bpe", ["good", "bad"]),
        ("LETTERS", "language_model", "characters", ["good"]),
    ):
        data = {"text": [str(folder / one) for one in text]}
        tree = {"task": task, "data": data, "subwords": {"kind": kind, "size": 22}}
        files[name] = yaml.safe_dump(tree).encode()
    for name, content in files.items():
        (folder / name).write_bytes(content)
    make_run(folder / "RUN")
    make_run(folder / "OTHER", seed=1)
    make_language_model_run(folder / "LM")
    make_language_model_run(folder / "STATES", attention="state_space")
    make_masked_model_run(folder / "MASKED")
    names = ("RUN", "OTHER", "LM", "STATES", "MASKED", "NONE", *files)
    return {name: str(folder / name) for name in names} | {"NEW": "new", "TOY": str(toy.config)}


@pytest.fixture(scope="module")
def words_of_images(words: dict[str, str], tmp_path_factory: pytest.TempPathFactory) -> dict[str, str]:
    pytest.importorskip("sklearn", reason="the digits need pip install 'headwise[digits]'")
    digits = make_image_run(tmp_path_factory.mktemp("images") / "digits", "image_classification", patch=2)
    seven = digits.parent / "seven.png"
    imsave(seven, np.eye(8))
    images = {"DIGITS": str(digits), "CAPTIONS": str(CONFIGS / "digits-clip.yaml"), "seven.png": str(seven)}
    return words | images


def check(arguments: str, key: str, words: dict[str, str], program: Call) -> None:
    """Run a command in an empty folder, and check what it says and that it leaves nothing there."""
    given = [_named(word, words) for word in arguments.split()]
    outcome = program(*given)
    assert _named(key, words) in outcome.error
    others = [line for line in outcome.err.splitlines()[:-1] if " engine (" not in line]
    assert others == [] or given[0] in ("train", "serve")  # which tell what they do
    assert len(outcome.out.splitlines()) == ((arguments, key) in LATE)
    files = [path for path in Path().rglob("*") if path.is_file()]
    kept = [file for file in files if not file.name.endswith(".lock") and "prepared" not in file.parts]
    assert kept == []  # prepared text is none of a run's results


def _named(text: str, words: dict[str, str]) -> str:
    """Return a text, of which the first word may stand for a run or a file."""
    return re.sub(r"^[\w.]+", lambda word: words.get(word[0], word[0]), text)


@pytest.mark.parametrize(("arguments", "key"), [*ROWS, *LATE], ids=[row[0][:60] for row in [*ROWS, *LATE]])
def test_a_bad_argument(arguments: str, key: str, words: dict[str, str], here: Path, program: Call) -> None:
    check(arguments, key, words, program)


@pytest.mark.parametrize(("arguments", "key"), IMAGE_ROWS, ids=[row[0] for row in IMAGE_ROWS])
def test_a_bad_argument_of_a_model_of_images(
    arguments: str, key: str, words_of_images: dict[str, str], here: Path, program: Call
) -> None:
    check(arguments, key, words_of_images, program)


def test_the_input_is_left_alone(words: dict[str, str]) -> None:
    assert Path(words["TEXT"]).read_bytes() == b"A man.\nA dog.\n"
    assert Path(words["TERMS"]).read_bytes() == b"man\tMann\n"
    assert Path(words["LINKS"]).read_bytes() == b"0-0\n0-0\n"
    assert not os.path.exists(words["NONE"])
