"""German grammar of the miniature corpus, checked against an independent declension table.

The table below is written out in full, independently of the generator's endings; the checks read the
sentences' words and dependency trees only.
"""

from __future__ import annotations

import re

import pytest

from tools.miniature import MiniaturePair, generate
from tools.miniature.lexicon.lexicon import NOUNS, NUMBERS, VERBS

# article: (gender or p, case) pairs it can stand for
ARTICLES = {
    "der": "m-nom f-dat f-gen p-gen",
    "die": "f-nom f-acc p-nom p-acc",
    "das": "n-nom n-acc",
    "den": "m-acc p-dat",
    "dem": "m-dat n-dat",
    "des": "m-gen n-gen",
    "ein": "m-nom n-nom n-acc",
    "eine": "f-nom f-acc",
    "einen": "m-acc",
    "einem": "m-dat n-dat",
    "einer": "f-dat f-gen",
}
# ending of kein, mein, dein, sein, ihr, unser (ein words) and of dies-, jed-, welch-, all- (der words)
EIN_ENDINGS = {
    "": "m-nom n-nom n-acc",
    "e": "f-nom f-acc p-nom p-acc",
    "en": "m-acc p-dat",
    "em": "m-dat n-dat",
    "er": "f-dat f-gen p-gen",
    "es": "m-gen n-gen",
}
DER_ENDINGS = {
    "er": "m-nom f-dat f-gen p-gen",
    "e": "f-nom f-acc p-nom p-acc",
    "es": "n-nom n-acc m-gen n-gen",
    "en": "m-acc p-dat",
    "em": "m-dat n-dat",
}
CONTRACTED = {"im": "m-dat n-dat", "am": "m-dat n-dat", "zum": "m-dat n-dat", "vom": "m-dat n-dat"}
CONTRACTED |= {"zur": "f-dat", "ins": "n-acc"}
# adjective ending after a der word, after an ein word, and without either
WEAK = {"m-nom": "e", "f-nom": "e", "n-nom": "e", "f-acc": "e", "n-acc": "e"}  # and -en elsewhere
MIXED = {"m-nom": "er", "f-nom": "e", "n-nom": "es", "f-acc": "e", "n-acc": "es"}  # and -en elsewhere
STRONG = {
    "m-nom": "er", "m-acc": "en", "m-dat": "em", "m-gen": "en",
    "f-nom": "e", "f-acc": "e", "f-dat": "er", "f-gen": "er",
    "n-nom": "es", "n-acc": "es", "n-dat": "em", "n-gen": "en",
    "p-nom": "e", "p-acc": "e", "p-dat": "en", "p-gen": "er",
}  # fmt: skip
EIN_STEMS = ("kein", "mein", "dein", "sein", "ihr", "unser")
DER_STEMS = ("dies", "jed", "welch", "all")
PREPOSITIONS = {
    "mit": "dat", "von": "dat", "vom": "dat", "zu": "dat", "zum": "dat", "zur": "dat", "aus": "dat", "nach": "dat",
    "für": "acc", "durch": "acc", "um": "acc", "während": "gen", "wegen": "gen", "trotz": "gen", "im": "dat",
    "am": "dat", "ins": "acc",
}  # fmt: skip
DATIVE_VERBS = (
    *(
        "hilf",
        "half",
        "helf",
        "geholf",
        "dank",
        "gedank",
        "vertrau",
        "folg",
        "gefolg",
        "antwort",
        "geantwort",
    ),
    *("hör", "zuhör", "zuzuhör", "zugehör", "gehör"),
)
GENDERS: dict[str, set[str]] = {}
for noun in NOUNS.values():
    for form in (noun.german, noun.oblique, noun.genitive):
        GENDERS.setdefault(form, set()).add(noun.gender)
    if not noun.mass and not noun.proper:
        for form in (noun.german_plural, noun.german_plural + "n"):
            GENDERS.setdefault(form, set()).add("p")


@pytest.fixture(scope="module")
def pairs() -> list[MiniaturePair]:
    corpus = generate(train=2500, dev=200, test=200, seed=11)
    return corpus.train + corpus.dev + corpus.test


def lower(pair: MiniaturePair, index: int) -> str:
    """Return a word without the capital of the sentence start, unless it is a noun."""
    word = pair.target_tokens[index]
    return word[0].lower() + word[1:] if index == 0 and pair.target_tags[0] not in ("NOUN", "PROPN") else word


def children(pair: MiniaturePair, index: int, *relations: str) -> list[int]:
    return [
        i
        for i, (head, relation) in enumerate(zip(pair.target_heads, pair.target_relations, strict=True))
        if head == index and relation in relations
    ]


def readings(word: str) -> tuple[set[str], str] | None:
    """Return the possible genders and cases of a determiner, and its kind; None if it isn't inflected."""
    if word in ARTICLES:
        return set(ARTICLES[word].split()), "ein" if word.startswith("ein") else "der"
    if word in CONTRACTED:
        return set(CONTRACTED[word].split()), "der"
    for stems, endings, kind in ((EIN_STEMS, EIN_ENDINGS, "ein"), (DER_STEMS, DER_ENDINGS, "der")):
        for stem in stems:
            if word.startswith(stem) and word[len(stem) :] in endings:
                return set(endings[word[len(stem) :]].split()), kind
    return None


def test_article_adjective_and_noun_agree(pairs: list[MiniaturePair]) -> None:
    checked = adjectives = 0
    for pair in pairs:
        for index, tag in enumerate(pair.target_tags):
            if tag != "NOUN" or pair.target_tokens[index] not in GENDERS:
                continue
            possible = {f"{g}-{c}" for g in GENDERS[pair.target_tokens[index]] for c in ("nom", "acc", "dat", "gen")}
            determiners = children(pair, index, "det", "det:poss")
            cases = [i for i in children(pair, index, "case") if lower(pair, i) in CONTRACTED]
            kind = "none"
            for position in (*determiners, *cases):
                reading = readings(lower(pair, position))
                if reading is not None:
                    possible &= reading[0]
                    kind = reading[1]
            assert possible, (pair.target, pair.target_tokens[index])
            for position in children(pair, index, "amod"):
                if lower(pair, position) in ("letzte", "letztes", "nächste"):
                    continue
                table = {"der": WEAK, "ein": MIXED, "none": STRONG}[kind]
                endings = {table.get(p, "en") for p in possible}
                assert any(lower(pair, position).endswith(ending) for ending in endings), pair.target
                assert not lower(pair, position).endswith(("ee", "ees", "eer")), pair.target
                adjectives += 1
            checked += bool(determiners)
    assert checked > 2000
    assert adjectives > 500


def test_every_noun_phrase_stands_in_the_case_that_its_role_asks_for(pairs: list[MiniaturePair]) -> None:
    checked = 0
    for pair in pairs:
        for index, relation in enumerate(pair.target_relations):
            if pair.target_tags[index] != "NOUN" or pair.target_tokens[index] not in GENDERS:
                continue
            head = pair.target_heads[index]
            case = None
            if relation in ("nsubj", "nsubj:pass"):
                case = "nom"
            elif relation == "obj":
                verb = pair.target_tokens[head].lower()
                dative = any(re.fullmatch(stem + "(e|s?t|est|e?te|e?ten|et|e?n)?", verb) for stem in DATIVE_VERBS)
                particles = [lower(pair, i) for i in children(pair, head, "compound:prt")]
                if verb.startswith("hör"):  # hören has an accusative object, zuhören a dative one
                    dative = particles == ["zu"]
                if verb == "gehört" and children(pair, head, "aux"):  # hat gehört is hören, gehört gehören
                    dative = False
                case = "dat" if dative else "acc"
            elif relation == "iobj":
                case = "dat"
            elif relation == "nmod":
                case = "gen"
            else:
                governing = [lower(pair, i) for i in children(pair, index, "case")]
                case = PREPOSITIONS.get(governing[0]) if governing else None
            determiners = children(pair, index, "det", "det:poss")
            reading = readings(lower(pair, determiners[0])) if determiners else None
            if case is None or reading is None:
                continue
            allowed = {f"{gender}-{case}" for gender in GENDERS[pair.target_tokens[index]]}
            assert reading[0] & allowed, (pair.target, pair.target_tokens[index], case)
            checked += 1
    assert checked > 2000


def test_dative_plurals_end_in_n_or_s_and_weak_nouns_decline() -> None:
    corpus = generate(train=1500, dev=0, test=0, seed=12)
    text = " ".join(pair.target for pair in corpus.train)
    datives = [noun.german_plural + "n" for noun in NOUNS.values() if noun.german_plural[-1] in "er"]
    determiners = "|".join(("den", "diesen", "meinen", "unseren", *NUMBERS.values()))
    assert len(re.findall(rf"\b(?:{determiners}) (?:{'|'.join(datives)})\b", text)) > 5
    assert not re.search(
        r"\b(dem|den|einem|einen|diesem|diesen|des) (Bär|Student|Löwe|Affe|Junge|Bauer|Polizist)\b", text
    )
    assert not re.search(r"\b(mit|von|aus|zu) den [A-ZÄÖÜ]\w*[^ns\W]\b", text)


def finite_verb(pair: MiniaturePair, head: int) -> int:
    """Return the finite verb of the clause with this head: its auxiliary or copula, else the head."""
    auxiliaries = children(pair, head, "aux", "aux:pass", "cop")
    finite = [i for i in auxiliaries if pair.target_tokens[i].lower() not in ("sein",)]
    return finite[-1] if finite else head


def subtree(pair: MiniaturePair, index: int) -> set[int]:
    found = {index}
    while True:
        more = {i for i, head in enumerate(pair.target_heads) if head in found} - found
        if not more:
            return found
        found |= more


def test_the_finite_verb_is_second_in_main_clauses(pairs: list[MiniaturePair]) -> None:
    second = 0
    for pair in pairs:
        root = pair.target_heads.index(-1)
        verb = finite_verb(pair, root)
        if pair.target_tags[verb] not in ("VERB", "AUX"):
            continue  # a noun phrase alone
        polar = pair.target.endswith("?") and verb == 0
        if polar:
            continue
        # what stands before the finite verb is exactly one constituent: one dependent of the root, with all
        # that belongs to it, and the commas that close it
        before = set(range(verb))
        openers = {
            i for i in before if pair.target_heads[i] == root and pair.target_relations[i] != "punct" and i != verb
        }
        assert len(openers) == 1, pair.target
        (opener,) = openers
        rest = before - subtree(pair, opener)
        assert all(pair.target_tokens[i] == "," for i in rest), pair.target
        second += 1
    assert second > 2000


def test_the_finite_verb_is_last_in_subordinate_clauses(pairs: list[MiniaturePair]) -> None:
    seen: dict[str, int] = {}
    for pair in pairs:
        for head, relation in enumerate(pair.target_relations):
            if relation not in ("advcl", "ccomp", "acl:relcl"):
                continue
            marks = [lower(pair, i) for i in children(pair, head, "mark")]
            if "um" in marks:
                continue
            clause = subtree(pair, head)
            for inner in range(len(pair.target_heads)):  # what follows the verb: complement and relative clauses
                if (
                    inner in clause
                    and inner != head
                    and pair.target_relations[inner] in ("ccomp", "xcomp", "acl:relcl")
                ):
                    clause -= subtree(pair, inner)
            words = sorted(i for i in clause if pair.target_tokens[i] != ",")
            assert words[-1] == finite_verb(pair, head), pair.target
            opening = pair.target_tokens[min(clause)]
            assert min(clause) == 0 or opening == ",", pair.target
            key = marks[0] if marks else relation
            seen[key] = seen.get(key, 0) + 1
    for kind in (
        "weil",
        "obwohl",
        "wenn",
        "als",
        "dass",
        "ob",
        "während",
        "bevor",
        "bis",
        "damit",
        "acl:relcl",
    ):
        assert seen.get(kind, 0) >= 3, (kind, seen)


def test_separable_verbs_part_in_main_clauses_and_join_in_subordinate_ones(
    pairs: list[MiniaturePair],
) -> None:
    prefixes = {verb.prefix for verbs in VERBS.values() for verb in verbs if verb.prefix}
    parted = joined = 0
    for pair in pairs:
        for index, relation in enumerate(pair.target_relations):
            if relation == "compound:prt":
                parted += 1
                head = pair.target_heads[index]
                assert pair.target_tokens[index] in prefixes
                assert head < index
                assert not children(pair, head, "aux", "mark"), pair.target
                following = pair.target_tokens[index + 1]
                assert following in (".", "?", ",", "und"), pair.target
    for verb in (v for verbs in VERBS.values() for v in verbs if v.prefix):
        form = verb.prefix + "zu" + verb.infinitive
        joined += sum(form in pair.target_tokens for pair in pairs)
    assert parted > 50
    assert joined > 3


def test_commas_set_off_subordinate_clauses_and_never_meet_other_marks(pairs: list[MiniaturePair]) -> None:
    for pair in pairs:
        assert not re.search(r",[,.?]|[,.?] [.,?]", pair.target), pair.target
        for index, token in enumerate(pair.target_tokens):
            if index and token in ("weil", "obwohl", "dass", "ob", "damit", "bevor"):
                assert pair.target_tokens[index - 1] == ",", pair.target


def test_pronouns_have_the_gender_of_the_noun_they_refer_to(pairs: list[MiniaturePair]) -> None:
    forms = {
        "m": {"er", "ihn", "ihm"}, "f": {"sie", "ihr"}, "n": {"es", "ihm"}, "p": {"sie", "ihnen"},
    }  # fmt: skip
    relatives = {
        "m": {"der", "den", "dem", "dessen"}, "f": {"die", "der", "deren"}, "n": {"das", "dem", "dessen"},
        "p": {"die", "den", "denen", "deren"},
    }  # fmt: skip
    counts = {"personal": 0, "relative": 0, "possessive": 0}
    for pair in pairs:
        for pronoun, antecedent in pair.target_coreference:
            assert pair.target_tags[antecedent] in ("NOUN", "PROPN"), pair.target
            word, noun = lower(pair, pronoun), pair.target_tokens[antecedent]
            genders = GENDERS[noun]
            if children(pair, antecedent, "conj"):
                genders = {"p"}
            if pair.target_relations[pronoun] == "det:poss" and word not in ("dessen", "deren"):
                stem = "sein" if word.startswith("sein") else "ihr"
                assert stem in {"ihr" if g in "fp" else "sein" for g in genders}, pair.target
                counts["possessive"] += 1
                continue
            head = pair.target_heads[antecedent]
            kind = (
                "relative"
                if pair.target_tokens[pronoun - 1] == "," and word in set().union(*relatives.values())
                else "personal"
            )
            if (
                pair.target_tokens[pronoun - 2 : pronoun - 1] == (",",)
                and word not in forms["m"] | forms["n"] | forms["f"] | forms["p"]
            ):
                kind = "relative"  # after a preposition: auf den, in dem
            allowed = set().union(*((relatives if kind == "relative" else forms)[g] for g in genders))
            assert word in allowed, (pair.target, word, noun, head)
            counts[kind] += 1
    assert min(counts.values()) > 40, counts


def test_it_becomes_er_sie_and_es_by_the_gender_of_what_it_means(pairs: list[MiniaturePair]) -> None:
    meant: dict[str, int] = {}
    for pair in pairs:
        links = dict(pair.source_coreference)
        for left, right in pair.alignment:
            if pair.source_tokens[left].lower() == "it" and left in links:
                word = lower(pair, right)
                meant[word] = meant.get(word, 0) + 1
    assert {"er", "sie", "es", "ihn"} <= set(meant)
    assert min(meant[word] for word in ("er", "sie", "es", "ihn")) > 10


@pytest.mark.parametrize(
    ("pattern", "why"),
    [
        (
            r"\b(in|an|zu|von) dem\b(?! \w+(, |en, ))",
            "in dem, an dem, zu dem, von dem contract before a noun",
        ),
        (r"\bzu der\b(?! \w+(en)?,)", "zu der contracts to zur"),
        (r"\bnicht (eine|einen|ein [A-Z]\w+)\b", "not a is kein"),
        (r"\b(?![Aa]us)\w*(ei|au|äu|eu|ie)ss\w*\b", "ß and not ss after a diphthong"),
    ],
)
def test_forms_that_no_german_would_write(pairs: list[MiniaturePair], pattern: str, why: str) -> None:
    for pair in pairs:
        found = re.search(pattern, pair.target)
        if found and ", " + found.group() in pair.target:  # a relative pronoun: das Haus, in dem er wohnt
            continue
        assert not found, f"{why}: {pair.target}"
