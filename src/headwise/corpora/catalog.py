"""Catalog of `headwise data get`: corpora and models, with their files, archives, checksums and licenses.

Checksums are SHA-256 of the decompressed file, so that they don't depend on how the file was compressed. Where one is
`None`, the publisher gives none and we had no copy to compute it from: the first download is then recorded in the
folder's `manifest.json`, and later ones are verified against that record.

None of the public data is part of Headwise or covered by its license; the built-in and generated corpora are. Of
WMT 2014, the data of the paper, English-German is Stanford's preprocessed version, and English-French is the text as
WMT publishes it. The MD5 sums of its test sets are those that sacreBLEU verifies; the other archives have no published
checksums.
"""

from __future__ import annotations

import difflib
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from functools import partial
from pathlib import Path

from headwise.corpora.built_in import write_built_in
from headwise.corpora.synthetic import generate
from headwise.errors import ConfigError


@dataclass(frozen=True)
class Archive:
    """A tar file, compressed or not, and its published MD5."""

    url: str
    md5: str | None = None

    @property
    def name(self) -> str:
        """Return the file name."""
        return self.url.rpartition("/")[2]


@dataclass(frozen=True)
class CorpusPart:
    """A file inside an archive: plain, `.gz`, or a test set in `.sgm`."""

    archive: Archive
    member: str


@dataclass(frozen=True)
class PublicFile:
    """One file: its local name, the URL it is published at (plain or `.gz`), and the SHA-256 of the plain file.

    A file that is published inside archives has no `url` but `parts`, which are concatenated in this order; a file of
    a corpus that is written here has neither.
    """

    name: str
    url: str = ""
    sha256: str | None = None
    parts: tuple[CorpusPart, ...] = ()

    @property
    def origin(self) -> str:
        """Return the URL, or the URLs and members of the parts, for the manifest."""
        return self.url or ", ".join(f"{part.archive.url} ({part.member})" for part in self.parts)


@dataclass(frozen=True)
class Corpus:
    """A corpus, or a model: the files of a run directory.

    Attributes:
        pair: for parallel text, the names of the training files, source first.
        write: writes the files into a directory, where they are made here rather than downloaded.
        model: whether it is a model.
    """

    name: str
    description: str
    languages: tuple[str, ...]
    license: str
    homepage: str
    megabytes: int  # approximate size on disk
    files: tuple[PublicFile, ...]
    pair: tuple[str, str] | None = None
    write: Callable[[Path], object] | None = None
    model: bool = False

    @property
    def folder(self) -> Path:
        """Return where the files go unless the user says otherwise."""
        return Path("models" if self.model else "data") / self.name

    @property
    def most_bytes(self) -> int:
        """Return the size limit of each file, downloaded or decompressed: generous, as `megabytes` is rounded."""
        return 2_000_000 * self.megabytes + 1_000_000


_OWN = "MIT, as Headwise"
_GITHUB = "https://raw.githubusercontent.com"
_STANFORD = "https://nlp.stanford.edu/projects/nmt/data"
_STATMT = "https://www.statmt.org"
_TEST_2013 = Archive(f"{_STATMT}/wmt13/test.tgz", "48eca5d02f637af44e85186847141f67")
_TEST_2014 = Archive(f"{_STATMT}/wmt14/test-full.tgz", "a8cd784e006feb32ac6f3d9ec7eb389a")
# Training text of English-French: 2.0, 3.2, 12.9, 0.2 and 22.5 million sentence pairs.
_FRENCH = (
    (f"{_STATMT}/wmt13/training-parallel-europarl-v7.tgz", "training/europarl-v7.fr-en.{}"),
    (f"{_STATMT}/wmt13/training-parallel-commoncrawl.tgz", "commoncrawl.fr-en.{}"),
    (f"{_STATMT}/wmt13/training-parallel-un.tgz", "un/undoc.2000.fr-en.{}"),
    (f"{_STATMT}/wmt14/training-parallel-nc-v9.tgz", "training/news-commentary-v9.fr-en.{}"),
    (f"{_STATMT}/wmt10/training-giga-fren.tar", "giga-fren.release2.fixed.{}.gz"),
)

_MULTI30K = {
    "train.en": "460a15fbd157e34a7a9957ee388c1ca247fe47af3ef25fb50442af6c274e0fc6",
    "train.de": "2c2b73fd2b548fbcde3a875e0a78d6ee94d498bfdee6bd3eae3945779e9ddf72",
    "train.fr": "5925a3c18f1587b6b54b87743106e6e8ab93618edb6f65d19eac0621f853a10d",
    "val.en": "1f2a23d992769b5b3d209b0a10dd0b77c08cceb1f20dfb97ed0aafa49d107227",
    "val.de": "660e09eb7e1da2f856ea13ee5ad3cf6d36b3d5b0b733c857e94c5747a3dfc660",
    "val.fr": "5304e444d842e962b2dda4d816b70b22a1765b15401642b7ca37a67477e708dc",
    "test_2016_flickr.en": "399a4382932c1aadd3ceb9bef1008d388a64c76d4ae4e9d4728c6f4301cac182",
    "test_2016_flickr.de": "4be6b5b3236b79c25475c6bb829800a7ce559e9ba7a1f6c2394fe4d40be46d16",
    "test_2016_flickr.fr": "cb3160d69b002bb638e66cc7612fcd56cb0af82eadc9c142dedc438afb885ef6",
    "train.lc.norm.tok.en": "08925f8e0572bcd5a006702fc5fe20e2d77c6917d4eebd576fc20de6693c2119",
    "train.lc.norm.tok.de": "cb5a23529b65ec2061f1dc446192a9c37382b63cc75f81a0be59d34894b3a505",
    "train.lc.norm.tok.fr": "8fa41bb718412bcb7c5dfa58603842810a01543eae86a51279f9886b901266e1",
    "val.lc.norm.tok.en": "46573ce391ae227f1c72f873392436a20ef18e0a6d518098cfbd70b77c8572ec",
    "val.lc.norm.tok.de": "97232bd273eceb7207f689527386a97e4be2616b18ada47576bdaf96c8ae1f00",
    "val.lc.norm.tok.fr": "b303e301aa21fe7822a846b2b3fb2d5a1121ec807cd5b1d006fb7b2b5507168a",
    "test_2016_flickr.lc.norm.tok.en": "5b7f32627cf99eced828311b955dae9800bb52bc8b91cf8b6526829e605b29d2",
    "test_2016_flickr.lc.norm.tok.de": "c6a33d39d48f9f510de147651316cd9d918e09ad0219df734a2f16b6baccacc4",
    "test_2016_flickr.lc.norm.tok.fr": "1463bd5960f9bfe098ec3cd752d3df0c49c84dc646fb518964a29232658cd836",
}

_TANAKA = {
    "train.en": "148b05dcd28638fe20ee84f2b1127001c80982be352007dda241fb759adadc76",
    "train.ja": "fc81a1434349ec98a449d7ae9cd2530057f689637684ecfed3501ea6a8a07ecc",
    "dev.en": "04a2673449770657fd5e3b963cb856be3130923212b6db8ac7eaeef18f06c041",
    "dev.ja": "cd534f56b8639dc130f86a365e5ec0aa70042000bdd740a622fbbf8b6be4acca",
    "test.en": "45edb380749ec2b49cca7618fc5a7595fc9f791180672ba466b90c873a4aa8bf",
    "test.ja": "d37dc460a81b064e4106c8913eb11fa300da05cf3f58a7a5bbfec7e20947ddef",
}

_MINIATURE = {
    "dev.align": "e80174b0fff2b3b5c9aa8623cfd8781fa50eac49cdeab85a7a54f028058f9e38",
    "dev.de": "93168cda8aeb8221cd58ee970ab59255ad60d8522761d849c9a1faaa39afa3d7",
    "dev.de.conllu": "38c3c0b55f183a9252c55d30337b0e771fde83403c9da76a03d93efdbdca47c1",
    "dev.en": "403e1573fd41363568ba769330fb02ac8818049b4f743bacf841beacfde8a2dd",
    "dev.en.conllu": "c7987a3896d96fa829723ba2a32f3d479b4358f00f03941dfdb63f60d60099a4",
    "examples.en": "a49786aa8fab18a8d69bfd307c4870b8db0405906f2ca7e74bbc6e1bdec708e7",
    "test.align": "cab70912a14d50bc79f8f9a60db92fdf6347f437c44f1bb5a837ab79701f33a6",
    "test.de": "9d02e10846c84c280c528f6237dd371d391c8d54c9b44233b383d6d366672c0d",
    "test.de.conllu": "755b3694977f6298a2d93d70aa9601c5aed5446b2fa52e33bde284b1c308d6da",
    "test.en": "6c737c28e2ec3b6eceaad193fc7f964f15e9861319e4b9f0aa6d72ecadbb96aa",
    "test.en.conllu": "9fa7c35d22923dc4a4c03b232c6ef628a5a8e17b15cb9a78d26a81203c37d595",
    "train.de": "11c155042befe5944a1ba4510921c71188f596b22cb251c4993e939ac5d01ea4",
    "train.en": "6fc3825bbfe9fc9746d88bf2902c916676d9aaa2e21aa5d7c51d60633771433e",
}

_TINY = {
    "dev.de": "958906a4727c773cfe66522d9caf409f5d44e2cc2816efbf5bece727d4cc45e8",
    "dev.en": "143a13d4b986dbd5fcec7b0f0c95dfceaddc4bbd88da6a581d3355fec5f9f159",
    "test.de": "8ce02510b6ba63ac28f11235af1b10f06fa818c902e63ecf8df8c4b00eb310ef",
    "test.de.conllu": "afdc082e8acea9abfe2dc62307b43602de4f382b146aaa146038fbc22d37832f",
    "test.en": "30895ead34b548643788835a2c703ccfb6a8aba6dc32a48c0387d0771320d7f7",
    "test.en.conllu": "e83f9007c11d920504fb852e84cf906ff38a073701837ac35c346ad0adaea19d",
    "train.de": "dd03afbbde2f36c73b53d425c7466b09102c3035f8ad4b211510b4494f7b5572",
    "train.en": "f14b543e36390e567f37896122a885699c3621a398bf332d31f9b83598f82f09",
}


def _multi30k_url(name: str) -> str:
    root = f"{_GITHUB}/multi30k/dataset/master/data/task1"
    return f"{root}/tok/{name}" if ".tok." in name else f"{root}/raw/{name}.gz"


def _on_github(folder: str, checksums: Mapping[str, str | None]) -> tuple[PublicFile, ...]:
    """Return the files of one folder of a GitHub repository, by name, with their SHA-256."""
    return tuple(PublicFile(name, f"{_GITHUB}/{folder}/{name}", sha256) for name, sha256 in checksums.items())


def _built_in(name: str, description: str, megabytes: int, checksums: Mapping[str, str]) -> Corpus:
    """Return the entry of a corpus in the package."""
    files = tuple(PublicFile(file, sha256=digest) for file, digest in checksums.items())
    write = partial(write_built_in, name)
    return Corpus(
        name, description, ("en", "de"), _OWN, "", megabytes, files, ("train.en", "train.de"), write=write
    )


def _generated(
    name: str, description: str, megabytes: int, *suffixes: str, pair: tuple[str, str] | None = None
) -> Corpus:
    """Return the entry of a generated corpus: files of each part with the given suffixes."""
    files = tuple(PublicFile(f"{part}.{suffix}") for part in ("train", "dev", "test") for suffix in suffixes)
    return Corpus(name, description, (), _OWN, "", megabytes, files, pair, write=partial(generate, name))


def _stanford_files(folder: str, names: str) -> tuple[PublicFile, ...]:
    """Return files of one of Stanford's NMT corpora; `names` are separated by spaces."""
    return tuple(PublicFile(name, f"{_STANFORD}/{folder}/{name}") for name in names.split())


def _newstest2014(pair: str, target: str) -> tuple[PublicFile, PublicFile]:
    """Return source and target of the full newstest2014: 3,003 sentences, as in `sacrebleu -t wmt14/full`."""
    return (
        PublicFile(
            "newstest2014.full.en",
            parts=(CorpusPart(_TEST_2014, f"test-full/newstest2014-{pair}-src.en.sgm"),),
        ),
        PublicFile(
            f"newstest2014.full.{target}",
            parts=(CorpusPart(_TEST_2014, f"test-full/newstest2014-{pair}-ref.{target}.sgm"),),
        ),
    )


_WMT14 = (
    Corpus(
        name="wmt14-en-de",
        description="WMT 2014, 4.5 million training sentences; tokenized, hyphens split as ##AT##-##AT##",
        languages=("en", "de"),
        license="as the parts from https://www.statmt.org/wmt14/translation-task.html: research use",
        homepage="https://nlp.stanford.edu/projects/nmt/",
        megabytes=1400,
        files=(
            *_stanford_files("wmt14.en-de", "train.en train.de newstest2013.en newstest2013.de"),
            *_newstest2014("deen", "de"),
        ),
        pair=("train.en", "train.de"),
    ),
    Corpus(
        name="wmt14-en-fr",
        description="WMT 2014, 41 million training sentences, plain; 36 million after the cleaning of configs/wmt14",
        languages=("en", "fr"),
        license="as the parts from https://www.statmt.org/wmt14/translation-task.html: research use",
        homepage="https://www.statmt.org/wmt14/translation-task.html",
        megabytes=13000,
        files=(
            *(
                PublicFile(
                    f"train.{side}",
                    parts=tuple(CorpusPart(Archive(url), member.format(side)) for url, member in _FRENCH),
                )
                for side in ("en", "fr")
            ),
            *(
                PublicFile(
                    f"newstest2013.{side}",
                    parts=(CorpusPart(_TEST_2013, f"test/newstest2013-src.{side}.sgm"),),
                )
                for side in ("en", "fr")
            ),
            *_newstest2014("fren", "fr"),
        ),
        pair=("train.en", "train.fr"),
    ),
)


_EXERCISE = ("source", "target", "joined")
_EXERCISE_PAIR = ("train.source", "train.target")

_ALL = (
    Corpus(
        name="multi30k",
        description="image captions, 29,000 training sentences; raw, and lower-cased and tokenized (*.tok.*)",
        languages=("en", "de", "fr"),
        license="research use; the captions derive from Flickr30k",
        homepage="https://github.com/multi30k/dataset",
        megabytes=14,
        files=tuple(PublicFile(name, _multi30k_url(name), digest) for name, digest in _MULTI30K.items()),
        pair=("train.en", "train.de"),
    ),
    Corpus(
        name="tanaka",
        description="everyday sentences of 4 to 16 words, 50,000 in training; tokenized, English lower-cased",
        languages=("en", "ja"),
        license="CC BY, from the Tanaka Corpus",
        homepage="https://github.com/odashi/small_parallel_enja",
        megabytes=5,
        files=_on_github("odashi/small_parallel_enja/master", _TANAKA),
        pair=("train.en", "train.ja"),
    ),
    *_WMT14,
    Corpus(
        name="tinyshakespeare",
        description="1.1 million characters of plays, for character language models",
        languages=("en",),
        license="public domain",
        homepage="https://github.com/karpathy/char-rnn",
        megabytes=2,
        files=_on_github(
            "karpathy/char-rnn/master/data/tinyshakespeare",
            {"input.txt": "86c4e6aa9db7c042ec79f339dcb96d42b0075e16b8fc2e86bf0ca57e2dc565ed"},
        ),
    ),
    Corpus(
        name="mr-polarity",
        description="5,331 positive and 5,331 negative sentences of film reviews (Pang & Lee 2005)",
        languages=("en",),
        license="research use; cite Pang & Lee 2005",
        homepage="https://github.com/yoonkim/CNN_sentence",
        megabytes=2,
        files=_on_github(
            "yoonkim/CNN_sentence/master",
            {
                "rt-polarity.pos": "d2a0074778723394433cca5892ea281f643e630f6eb95e282d23819a22261ac6",
                "rt-polarity.neg": "2b78ab5f626b11e09896e7abeaaa82c07c94217d4a462bdfaea2ec3e17cd0fe0",
            },
        ),
    ),
    Corpus(
        name="ud-pud",
        description="1,000 parallel sentences with dependency trees (CoNLL-U), release 2.18",
        languages=("en", "de"),
        license="CC BY-SA 3.0",
        homepage="https://universaldependencies.org",
        megabytes=4,
        files=(
            *_on_github(
                "UniversalDependencies/UD_English-PUD/r2.18",
                {"en_pud-ud-test.conllu": "c80584f2bc2b31d5bada78a1136f9feec7ac49e5e18898db02dea434b5b8f0aa"},
            ),
            *_on_github("UniversalDependencies/UD_German-PUD/r2.18", {"de_pud-ud-test.conllu": None}),
        ),
    ),
    Corpus(
        name="ud-ewt",
        description="16,622 sentences of English web text with tags and trees (CoNLL-U), release 2.16",
        languages=("en",),
        license="CC BY-SA 4.0",
        homepage="https://universaldependencies.org",
        megabytes=18,
        files=_on_github(
            "UniversalDependencies/UD_English-EWT/r2.16",
            {
                "en_ewt-ud-train.conllu": "3fb78e2b55482c8ee00caa653af436c88c9e5bc9a73ce26e4ae3ddc79d2b7e7b",
                "en_ewt-ud-dev.conllu": "531a54ff90d6ab12201c5a50c3e78e6ddac4de69abc4bce5d275d3cd29efe2b6",
                "en_ewt-ud-test.conllu": "e266e515a0a7547657ed3d90d9ba46487d6bd251f27ad4269d4e8a427c8555cd",
            },
        ),
    ),
    _built_in(
        "miniature",
        "built-in: 60,000 pairs from a grammar; alignments, trees and coreference links for dev and test",
        7,
        _MINIATURE,
    ),
    _built_in("tiny", "built-in: the 20,000 pairs of `headwise reproduce … --scale tiny`", 3, _TINY),
    _generated(
        "entities",
        "generated: sentences with persons, organizations, places and dates, IOB2 tags",
        1,
        "iob",
    ),
    _generated("questions", "generated: stories, and questions that a part of them answers", 21, "jsonl"),
    _generated(
        "reverse", "generated: 4 to 12 letters; the last one first", 2, *_EXERCISE, pair=_EXERCISE_PAIR
    ),
    _generated(
        "summary",
        "generated: paragraphs that tell a name, a job and a city between other sentences; these three",
        10,
        *_EXERCISE,
        pair=_EXERCISE_PAIR,
    ),
)

# The files of `models/` at the tag of the project's repository that has them, and their SHA-256.
_MODELS = "headwise/headwise/models-1/models"
_OPEN_EN_DE: dict[str, str] = {}
_OPEN_DE_EN: dict[str, str] = {}


def _general(source: str, target: str, checksums: Mapping[str, str]) -> Corpus:
    """Return the entry of a general model."""
    name = f"open-{source}-{target}"
    return Corpus(
        name,
        "a model for everyday and technical text, in int8, with its card",
        (source, target),
        f"{_OWN}; the card names the texts that it was trained on",
        "",
        15,
        _on_github(f"{_MODELS}/{name}", checksums),
        model=True,
    )


_GENERAL = (_general("en", "de", _OPEN_EN_DE), _general("de", "en", _OPEN_DE_EN))

CORPORA: dict[str, Corpus] = {corpus.name: corpus for corpus in (*_ALL, *_GENERAL)}


def find_corpus(name: str) -> Corpus:
    """Return the corpus or model with this name; raises `ConfigError` naming the closest match, or all."""
    if name in CORPORA:
        return CORPORA[name]
    near = difflib.get_close_matches(name, CORPORA, n=1, cutoff=0.5)
    hint = f"did you mean {near[0]}?" if near else f"known: {', '.join(CORPORA)}"
    raise ConfigError(f"there is no corpus or model named {name!r} ({hint})")
