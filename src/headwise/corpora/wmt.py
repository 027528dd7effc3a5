"""WMT 2014, the data of the paper: URLs of the training text and the test sets.

English-German is Stanford's preprocessed version, English-French is the text as WMT publishes it. The MD5 sums of the
test sets are those that sacreBLEU verifies; the other archives have no published checksums.
"""

from __future__ import annotations

from headwise.corpora.catalog import Archive, Corpus, Part, PublicFile

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


def stanford_files(folder: str, names: str) -> tuple[PublicFile, ...]:
    """Return files of one of Stanford's NMT corpora; `names` are separated by spaces."""
    return tuple(PublicFile(name, f"{_STANFORD}/{folder}/{name}") for name in names.split())


def _newstest2014(pair: str, target: str) -> tuple[PublicFile, PublicFile]:
    """Return source and target of the full newstest2014: 3,003 sentences, as in `sacrebleu -t wmt14/full`."""
    return (
        PublicFile(
            "newstest2014.full.en", parts=(Part(_TEST_2014, f"test-full/newstest2014-{pair}-src.en.sgm"),)
        ),
        PublicFile(
            f"newstest2014.full.{target}",
            parts=(Part(_TEST_2014, f"test-full/newstest2014-{pair}-ref.{target}.sgm"),),
        ),
    )


WMT14 = (
    Corpus(
        name="wmt14-en-de",
        description="WMT 2014, 4.5 million training sentences; tokenized, hyphens split as ##AT##-##AT##",
        languages=("en", "de"),
        license="as the parts from https://www.statmt.org/wmt14/translation-task.html: research use",
        homepage="https://nlp.stanford.edu/projects/nmt/",
        megabytes=1400,
        files=(
            *stanford_files("wmt14.en-de", "train.en train.de newstest2013.en newstest2013.de"),
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
                    parts=tuple(Part(Archive(url), member.format(side)) for url, member in _FRENCH),
                )
                for side in ("en", "fr")
            ),
            *(
                PublicFile(
                    f"newstest2013.{side}", parts=(Part(_TEST_2013, f"test/newstest2013-src.{side}.sgm"),)
                )
                for side in ("en", "fr")
            ),
            *_newstest2014("fren", "fr"),
        ),
        pair=("train.en", "train.fr"),
    ),
)
