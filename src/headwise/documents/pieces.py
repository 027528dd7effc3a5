"""Pieces of text that must not change, such as addresses, placeholders and numbers with units: where they are."""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Iterator

from headwise.characters import has_letters

CURRENCY_SIGNS, CURRENCY_CODES = "€$£¥", "EUR|USD|GBP|CHF"
# Symbols of units that are the same in every language, and nothing else behind a number; then the others.
SYMBOLS = (
    "°C|°F|[kcmµμn]m[²³23]?|m[²³23]|[kKMGT]B|[KMGT]iB|[kmµμ]?g|[mcd]?[lL]|[mµμn]s|[kMG]?Hz|[km]?V|[kMG]?W|[kM]?Wh|m?Ah|[kM]?J|"
    "kcal|[hkm]?Pa|px|dpi|km/h|m/s|kbps|[MG]bit/s"
)
UNITS = rf"{SYMBOLS}|°|K|%|‰|m|B|t|lbs?|oz|s|min|h|[km]?A|pt|mph|ft|[{CURRENCY_SIGNS}]|{CURRENCY_CODES}"
_NUMBER = r"\d++(?:[.,]\d++)*+"
_ONE_EMOJI = (
    r"[0-9#*]\ufe0f?\u20e3|[\u2139\u2190-\u21ff\u2934\u2935\u3030\u303d\u3297\u3299]\ufe0f|[\U0001f1e6-\U0001f1ff]{2}|"
    r"[\u00a9\u00ae\u2122\u231a\u231b\u2328\u23cf\u23e9-\u23f3\u23f8-\u23fa\u2600-\u27bf\u2b05-\u2b07\u2b1b\u2b1c\u2b50\u2b55"
    r"\U0001f000-\U0001f1e5\U0001f200-\U0001faff]"
)
# An emoji with its variant or color of skin, and others joined to it.
EMOJI = (
    rf"(?:{_ONE_EMOJI})[\ufe0e\ufe0f\U0001f3fb-\U0001f3ff]?"
    rf"(?:\u200d(?:{_ONE_EMOJI})[\ufe0f\U0001f3fb-\U0001f3ff]?)*"
)
# What few vocabularies have, such as ½, ×, • and →; not the minus sign, which is part of a number.
_SYMBOL = (
    r"\d{0,9}[\u00bc-\u00be\u2150-\u215e]|"
    r"[\u00b1\u00b6\u00d7\u00f7\u2020-\u2023\u2190-\u2211\u2213-\u22ff\u25a0-\u25ff]"
)
# Letters of scripts other than Latin; of Greek, a single one may be a symbol.
_FOREIGN = (
    "\u0400-\u1cff\u2c00-\u2c5f\u2c80-\u2dff\u3040-\ua717\ua800-\uab2f\uab70-\ud7ff\uf900-\ufaff\ufb13-\ufdff\ufe70-\ufefc"
    "\U00020000-\U0003ffff"
)
_GREEK = "\u0370-\u03ff\u1f00-\u1fff"
# Of capitals and at least two digits, one behind a capital, as a serial number.
CODE = r"(?<!\w)(?=[A-Z0-9]{0,40}[A-Z][0-9])(?=[A-Z]{0,40}[0-9][A-Z]{0,40}[0-9])[A-Z0-9]{4,40}(?!\w)"
# Top-level domains that few sentences begin with, as people leave out the space behind a full stop ("ok.it was good").
_DOMAINS = "com|org|net|edu|gov|info|io|app|dev|eu|de|ch|uk|fr|nl|pl|jp|cn|ru|br|ca|au"
_SUFFIXES = (
    "docx?|xlsx?|pptx?|od[tsp]|pdf|txt|rtf|tex|epub|csv|tsv|json|ya?ml|toml|xml|html?|css|js|ts|py|ipynb|php|java|cpp|md|png|"
    "jpe?g|gif|bmp|tiff?|svg|webp|mp[34]|ogg|flac|wav|mov|webm|avi|zip|tar|gz|7z|rar|deb|rpm|jar|exe|dmg|apk|iso|log|ini|cfg|"
    "conf|bak|sh|sql|db|ics|pem|crt"
)
_DOTTED, _END = r"(?:[\w-]{1,63}\.){1,8}", r"(?![\w@-]|\.\w)"
_ALONE = r"(?<![\w@./\\-])"
_REST = r"[^\s<>\"“”„{}|\\^`]"
URL = rf"(?<![\w@])(?:(?:https?|ftp)://|www\.){_REST}++|{_ALONE}{_DOTTED}(?:{_DOMAINS}){_END}(?:[/?#]{_REST}*+)?"
_FOLDER = r"[\w.+~-]{1,80}"
_SPACED_FOLDER = rf"{_FOLDER}(?: [\w.+~()-]{{1,80}}){{0,3}}"
# C:\folder\name, \\server\name, /folder/name, ~/name, ./name, and name.txt, perhaps in folders.
PATH = (
    rf"(?<!\w)[A-Za-z]:\\(?:{_SPACED_FOLDER}\\){{0,20}}(?:{_FOLDER}(?<=\w))?|"
    rf"(?<![\w\\])\\\\(?:{_SPACED_FOLDER}\\){{1,20}}(?:{_FOLDER}(?<=\w))?|"
    rf"(?<![^\s(\[\"'“„‘‚»«])(?:(?:~|\.\.?)/{_FOLDER}|/{_FOLDER}/{_FOLDER})(?:/{_FOLDER}){{0,20}}(?<=\w)|"
    rf"{_ALONE}(?:{_FOLDER}[/\\]){{0,20}}{_DOTTED}(?:{_SUFFIXES}){_END}"
)
MENTION = r"(?<![\w@#/&])[@#][^\W\d]\w{1,80}"  # @name, #topic
EMAIL = r"(?<![\w.+%-])[\w.+%-]++@[\w-]++(?:\.[\w-]++)++"
_KINDS = {
    "url": URL,
    "email": EMAIL,
    "placeholder": "|".join(
        [
            # code between backticks, perhaps with reStructuredText's role, but not GNU's `quotes' or `text <target>`
            r"(?::[a-z][\w:+.-]{0,40}:)?(?<!`)(?:``(?=\S)(?:(?!'')[^`\n]){1,200}(?<=\S)``"
            r"|`(?=\S)(?:[^`\n<]|(?<!\s)<|<(?![^<>`\n]{1,200}>`)){1,200}(?<=\S)`)_{0,2}(?![`\w])",
            r"(?<!\w)\[[#*]?[\w.-]{0,40}\]_(?!\w)|(?<![\w|])\|[A-Za-z][\w.-]{0,60}\|_{0,2}(?![\w|])",  # [1]_, |name|
            # TeX: $x$, $a_1 = 2$, $$…$$
            r"\$\$[^$\n]{1,300}\$\$",
            r"(?<![\w$\\])\$(?![\s{])(?:[A-Za-z]|[^$\n]{0,300}?[\\^_=+<>][^$\n]{0,300}?(?<!\s))\$(?![\w${])",
            r"[$#]\{[^{}\n]{1,80}\}",
            r"%\{[^{}\s]{1,80}\}",
            r"\{%(?:(?!%\})[^\n]){1,200}%\}",
            r"\{\{[^{}\n]{1,80}\}\}",
            r"\[\[[\w.-]{1,80}\]\]",
            r"\{[\w.$\[\]]{0,80}(?:![rsa])?(?::[^{}\s]{0,20})?\}",
            r"\$t\([^()\n]{1,80}\)",
            r"(?<![\w@])@(?:\.\w{1,20})?:(?:[\w.-]{1,80}\w|\([\w.-]{1,80}\))",
            r"(?<![\w$])\$[A-Za-z_]\w{0,80}",
            MENTION,
            r"(?<![^\s(\"“„])![a-z]\w{1,80}",
            r"(?<![^\s(\"“„]):[A-Za-z][A-Za-z_]{1,40}:?(?![\w:])",
            r"\{\s{0,3}[\w.]{1,80}\s{0,3},\s{0,3}(?:number|date|time|spellout|ordinal|duration)\s{0,3}(?:,[^{}]{0,80})?\}",
        ]
    ),
    # A letter or two may be behind a format: %dm, %.3fs, %1MB, %dx%d.
    "format": r"(?<![\w%])%[A-Za-z_][\w.-]{1,80}%(?![\w%])|(?<![\d%])%(?:\d{1,3}\$)?#@\w{1,80}@|"
    r"(?<![\d%])%(?:\(\w{1,80}\)|<\w{1,80}>|\d{1,3}\$)?[-+0#,']{0,4}(?:\d{1,4}|\*)?(?:\.(?:\d{1,4}|\*))?"
    r"(?:hh|h|ll|l|L|q|j|z|t)?[diouxXeEfFgGaAcsSpn@](?![\d_]|[a-zA-Z]{3})|%L?\d{1,2}(?![\d_$]|[a-zA-Z]{3})|%%",
    "number": rf"(?<![\w.,])(?:{_NUMBER}[ \u00a0\u202f]?(?:{UNITS})(?!\w)|"
    rf"(?:[{CURRENCY_SIGNS}]\s?|(?:{CURRENCY_CODES})[ \u00a0]){_NUMBER})",
    "code": f"{CODE}|{PATH}",
    "option": r"(?<![\w-])(?:--[a-z][\w-]{1,60}|-[A-Za-z])(?![\w-])",  # of a command
    "emoji": EMOJI,
    "symbol": _SYMBOL,
    "foreign": rf"[{_FOREIGN}]+|[{_GREEK}]{{2,}}",
}
_AMOUNT = re.compile(_KINDS["number"])
_ANY = re.compile("|".join(f"(?P<{kind}>{pattern})" for kind, pattern in _KINDS.items()))
_ADDRESSES = re.compile(f"{EMAIL}|{URL}|{PATH}")
_AFTER_ADDRESS = ".,;:!?'\"…»”’*_~"
_BRACKETS = {")": "(", "]": "["}
# The kinds whose pieces may have characters that look like the end of a sentence.
SEPARATING = frozenset({"url", "email", "placeholder", "format", "markup", "verbatim", "icu"})


def has_words(text: str) -> bool:
    """Whether a text has a letter that isn't in the unit or the currency of a number, as in 5 km."""
    return has_letters(text) and has_letters(_AMOUNT.sub("", text))


def find_pieces(text: str, *, foreign: bool = False) -> Iterator[tuple[int, int, str]]:
    """Yield the start, end and kind of the pieces of a text that must not change, in order.

    Kinds: `url`, `email`, `placeholder` (code between backticks, {name}, ${x}, #{x}, {{x}}, [[x]], %{x}, $x, :name,
    @name, #name, !name, $t(x), @:x, and TeX between dollars), `format` (%s, %(name)d, %<name>d, %1, %name%), `number`
    (with a unit or currency), `code` (1Z999AA1, and paths of files), `option` (-v, --help), `emoji` and `symbol`; and
    with `foreign` those, the words in other scripts than Latin.
    """
    for match in _ANY.finditer(text):
        kind = match.lastgroup
        assert kind is not None
        if kind == "foreign" and not foreign:
            continue
        end = address_length(match[0]) + match.start() if kind == "url" else match.end()
        yield match.start(), end, kind


def positions_in_pieces(text: str) -> set[int]:
    """Return the positions of the characters that are in pieces, foreign words not among them."""
    return {position for start, end, _ in find_pieces(text) for position in range(start, end)}


def without_addresses(text: str) -> str:
    """Return a text without its addresses and paths of files, whose words aren't words of the sentence."""
    return _ADDRESSES.sub(" ", text)


def address_length(address: str) -> int:
    """Return the length of a URL without the punctuation of the sentence around it."""
    end = len(address)
    counts = Counter(character for character in address if character in "()[]")
    while end:
        last = address[end - 1]
        unbalanced = last in _BRACKETS and counts[last] > counts[_BRACKETS[last]]
        if last not in _AFTER_ADDRESS and not unbalanced:
            break
        counts[last] -= 1
        end -= 1
    return end
