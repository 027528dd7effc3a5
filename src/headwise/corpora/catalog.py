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

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from functools import partial
from pathlib import Path

from headwise.corpora.built_in import write_built_in
from headwise.corpora.checksums import (
    MINIATURE,
    MULTI30K,
    OPEN_DE_EN,
    OPEN_EN_DE,
    OPEN_TEXT,
    TANAKA,
    TINY,
    WIKTIONARY_DE,
)
from headwise.corpora.synthetic import generate
from headwise.errors import ConfigError, suggestion


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

    `terms` says where it is from and its license, where the corpus has several. A file that is published inside
    archives has no `url` but `parts`, which are concatenated in this order; a file of a corpus that is written here has
    neither.
    """

    name: str
    url: str = ""
    sha256: str | None = None
    parts: tuple[CorpusPart, ...] = ()
    terms: str = ""

    @property
    def origin(self) -> str:
        """Return the URL, or the URLs and members of the parts, for the manifest."""
        return self.url or ", ".join(f"{part.archive.url} ({part.member})" for part in self.parts)


@dataclass(frozen=True)
class Corpus:
    """A corpus, or a model: the files of a run directory."""

    name: str
    description: str
    languages: tuple[str, ...]
    license: str
    homepage: str
    megabytes: int  # approximate size on disk
    files: tuple[PublicFile, ...]
    pair: tuple[str, str] | None = None  # of parallel text: the names of the training files, source first
    write: Callable[[Path], object] | None = None  # writes files that are made here into a directory
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
_HOMEPAGE = "https://github.com/headwise/headwise"
_RELEASES = f"{_HOMEPAGE}/releases/download"
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
    return Corpus(name, description, ("en", "de"), _OWN, "", megabytes, files, ("train.en", "train.de"), write=write)


def _generated(
    name: str, description: str, megabytes: int, *suffixes: str, pair: tuple[str, str] | None = None
) -> Corpus:
    """Return the entry of a generated corpus: files of each part with the given suffixes."""
    files = tuple(PublicFile(f"{part}.{suffix}") for part in ("train", "dev", "test") for suffix in suffixes)
    return Corpus(name, description, (), _OWN, "", megabytes, files, pair, write=partial(generate, name))


def _stanford_files(folder: str, names: str) -> tuple[PublicFile, ...]:
    """Return files of one of Stanford's NMT corpora; `names` are separated by spaces."""
    return tuple(PublicFile(name, f"{_STANFORD}/{folder}/{name}") for name in names.split())


def _packed(name: str, *parts: tuple[Archive, str]) -> PublicFile:
    """Return a file that consists of members of archives."""
    return PublicFile(name, parts=tuple(CorpusPart(*part) for part in parts))


def _newstest2014(pair: str, target: str) -> tuple[PublicFile, PublicFile]:
    """Return source and target of the full newstest2014: 3,003 sentences, as in `sacrebleu -t wmt14/full`."""
    files = f"test-full/newstest2014-{pair}"
    return (
        _packed("newstest2014.full.en", (_TEST_2014, f"{files}-src.en.sgm")),
        _packed(f"newstest2014.full.{target}", (_TEST_2014, f"{files}-ref.{target}.sgm")),
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
                _packed(f"train.{side}", *((Archive(url), member.format(side)) for url, member in _FRENCH))
                for side in ("en", "fr")
            ),
            *(
                _packed(f"newstest2013.{side}", (_TEST_2013, f"test/newstest2013-src.{side}.sgm"))
                for side in ("en", "fr")
            ),
            *_newstest2014("fren", "fr"),
        ),
        pair=("train.en", "train.fr"),
    ),
)


# Where the files are from (on GitHub, each at a commit) and their licenses, by the beginning of their names.
_OPEN_TERMS = {
    "tatoeba": "Tatoeba sentences of 2018-05, rioyshky/translation@de48b7027f; CC BY 2.0",
    "covost2": "CoVoST 2, development and test sets, YunusDemirag/fairseq-baseline-covost@d64f8ebab4; CC0",
    "debian-website": "Debian's website, l/debian-webwml@80cd9461d3; MIT or GPL 2+, "
    "older parts Open Publication License 1.0",
    "php-manual": "PHP manual, php/doc-en@17ddeefd65 and php/doc-de@08e5b7a4e1; CC BY 3.0",
    "rust-book": "The Rust Programming Language, rust-lang/book@917544888a and "
    "rust-lang-de/rustbook-de@4aafbc0ebe; MIT or Apache 2",
    "thunderbird": "Mozilla Thunderbird, mozilla-l10n/thunderbird-l10n; MPL 2",
    "gnome-help": "GNOME user documentation, GNOME/gnome-user-docs@46747c67c1; CC BY 3.0",
    "tldr-pages": "tldr-pages, tldr-pages/tldr@08e345f426; CC BY 4.0",
    "privacy-guides": "Privacy Guides, privacyguides/i18n@115b5cea05 and "
    "privacyguides/privacyguides.org@45d7263305; CC BY-SA 4.0",
    "mozilla-websites": "Mozilla's websites, mozilla-l10n/www-l10n@442e139499; MPL 2",
    "cwa-website": "Corona-Warn-App's website, remonator/cwa-website@1d1f94f562; Apache 2",
    "cwa-blog": "Corona-Warn-App's blog, remonator/cwa-website@1d1f94f562; Apache 2",
    "django-girls": "Django Girls tutorial, DjangoGirls/tutorial@71c4c3dad2; CC BY-SA 4.0",
    "open-source-guides": "kept out of training: Open Source Guides, github/opensource.guide@ebc9678e39; CC BY 4.0",
    "test/tatoeba": "kept out of training: Tatoeba's test set v2021-08-07, Helsinki-NLP/OPUS-MT-testsets@ac0f19c0b; "
    "CC BY 2.0",
    "test/ntrex128": "kept out of training: NTREX-128, MicrosoftTranslator/NTREX@8561f6a; CC BY-SA 4.0",
}


def _open_text() -> tuple[PublicFile, ...]:
    """Return the files of open-en-de-text, which are assets of a release of the project, each with its own license."""
    return tuple(
        PublicFile(
            name,
            f"{_RELEASES}/open-en-de-text-1/{name.removeprefix('test/')}.gz",
            sha256,
            terms=next(terms for stem, terms in _OPEN_TERMS.items() if name.startswith(stem)),
        )
        for name, sha256 in OPEN_TEXT.items()
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
        files=tuple(PublicFile(name, _multi30k_url(name), digest) for name, digest in MULTI30K.items()),
        pair=("train.en", "train.de"),
    ),
    Corpus(
        name="tanaka",
        description="everyday sentences of 4 to 16 words, 50,000 in training; tokenized, English lower-cased",
        languages=("en", "ja"),
        license="CC BY, from the Tanaka Corpus",
        homepage="https://github.com/odashi/small_parallel_enja",
        megabytes=5,
        files=_on_github("odashi/small_parallel_enja/master", TANAKA),
        pair=("train.en", "train.ja"),
    ),
    Corpus(
        name="open-en-de-text",
        description="everyday sentences, documentation, help and essays: 316,189 pairs, and sets to test on",
        languages=("en", "de"),
        license="open licenses, of each file its own: manifest.json names them",
        homepage=_HOMEPAGE,
        megabytes=40,
        files=_open_text(),
    ),
    Corpus(
        name="wiktionary-de",
        description="German nouns and adjectives with their forms and 41,000 of them with English translations",
        languages=("en", "de"),
        license="CC BY-SA 3.0, from the German Wiktionary of 2018-07",
        homepage="https://github.com/karoly-varasdi/de-wiktionary-parser",
        megabytes=4,
        files=_on_github(
            "karoly-varasdi/de-wiktionary-parser/73075bb76c9261c44923f4909858586b261bfd83/data", WIKTIONARY_DE
        ),
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
        MINIATURE,
    ),
    _built_in("tiny", "built-in: the 20,000 pairs of `headwise reproduce … --scale tiny`", 3, TINY),
    _generated("entities", "generated: sentences with persons, organizations, places and dates, IOB2 tags", 1, "iob"),
    _generated("questions", "generated: stories, and questions that a part of them answers", 21, "jsonl"),
    _generated("reverse", "generated: 4 to 12 letters; the last one first", 2, *_EXERCISE, pair=_EXERCISE_PAIR),
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


def _general(source: str, target: str, checksums: Mapping[str, str]) -> Corpus:
    """Return the entry of a general model."""
    name = f"open-{source}-{target}"
    return Corpus(
        name,
        "a model for everyday and technical text, in int8, with its card",
        (source, target),
        f"{_OWN}; the card names the texts that it was trained on",
        _HOMEPAGE,
        15,
        _on_github(f"{_MODELS}/{name}", checksums),
        model=True,
    )


_GENERAL = (_general("en", "de", OPEN_EN_DE), _general("de", "en", OPEN_DE_EN))

CORPORA: dict[str, Corpus] = {corpus.name: corpus for corpus in (*_ALL, *_GENERAL)}


def find_corpus(name: str) -> Corpus:
    """Return the corpus or model with this name; raises `ConfigError` naming the closest match, or all."""
    if name in CORPORA:
        return CORPORA[name]
    raise ConfigError(f"there is no corpus or model named {name!r} {suggestion(name, CORPORA, cutoff=0.5)}")
