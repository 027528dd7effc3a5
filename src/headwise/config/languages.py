"""Codes of languages: their form, their English names, and how names of text files tell them.

The codes are ISO 639-1's, with `zt` and `pb` of Argos Translate and LibreTranslate, and any code of ISO 639-2 or with
further parts as in BCP 47 (`deu`, `pt-BR`).
"""

from __future__ import annotations

import re
from collections.abc import Sequence
from pathlib import Path

from headwise.errors import ConfigError

CODE = re.compile(r"[a-z]{2,3}(-[A-Za-z0-9]{2,8})*", re.ASCII)
LONGEST = 35  # characters of a code (RFC 5646, section 4.4.1)

_NAMES = """
aa Afar, ab Abkhazian, ae Avestan, af Afrikaans, ak Akan, am Amharic, an Aragonese, ar Arabic, as Assamese, av Avaric,
ay Aymara, az Azerbaijani, ba Bashkir, be Belarusian, bg Bulgarian, bi Bislama, bm Bambara, bn Bengali, bo Tibetan,
br Breton, bs Bosnian, ca Catalan, ce Chechen, ch Chamorro, co Corsican, cr Cree, cs Czech, cu Church Slavonic,
cv Chuvash, cy Welsh, da Danish, de German, dv Divehi, dz Dzongkha, ee Ewe, el Greek, en English, eo Esperanto,
es Spanish, et Estonian, eu Basque, fa Persian, ff Fulah, fi Finnish, fj Fijian, fo Faroese, fr French,
fy Western Frisian, ga Irish, gd Scottish Gaelic, gl Galician, gn Guarani, gu Gujarati, gv Manx, ha Hausa, he Hebrew,
hi Hindi, ho Hiri Motu, hr Croatian, ht Haitian, hu Hungarian, hy Armenian, hz Herero, ia Interlingua, id Indonesian,
ie Interlingue, ig Igbo, ii Sichuan Yi, ik Inupiaq, io Ido, is Icelandic, it Italian, iu Inuktitut, ja Japanese,
jv Javanese, ka Georgian, kg Kongo, ki Kikuyu, kj Kuanyama, kk Kazakh, kl Kalaallisut, km Khmer, kn Kannada, ko Korean,
kr Kanuri, ks Kashmiri, ku Kurdish, kv Komi, kw Cornish, ky Kyrgyz, la Latin, lb Luxembourgish, lg Ganda, li Limburgish,
ln Lingala, lo Lao, lt Lithuanian, lu Luba-Katanga, lv Latvian, mg Malagasy, mh Marshallese, mi Maori, mk Macedonian,
ml Malayalam, mn Mongolian, mr Marathi, ms Malay, mt Maltese, my Burmese, na Nauru, nb Norwegian, nd North Ndebele,
ne Nepali, ng Ndonga, nl Dutch, nn Norwegian Nynorsk, no Norwegian, nr South Ndebele, nv Navajo, ny Chichewa,
oc Occitan, oj Ojibwa, om Oromo, or Oriya, os Ossetian, pa Punjabi, pb Portuguese (Brazil), pi Pali, pl Polish,
ps Pashto, pt Portuguese, qu Quechua, rm Romansh, rn Rundi, ro Romanian, ru Russian, rw Kinyarwanda, sa Sanskrit,
sc Sardinian, sd Sindhi, se Northern Sami, sg Sango, si Sinhala, sk Slovak, sl Slovenian, sm Samoan, sn Shona,
so Somali, sq Albanian, sr Serbian, ss Swati, st Southern Sotho, su Sundanese, sv Swedish, sw Swahili, ta Tamil,
te Telugu, tg Tajik, th Thai, ti Tigrinya, tk Turkmen, tl Tagalog, tn Tswana, to Tonga, tr Turkish, ts Tsonga, tt Tatar,
tw Twi, ty Tahitian, ug Uyghur, uk Ukrainian, ur Urdu, uz Uzbek, ve Venda, vi Vietnamese, vo Volapük, wa Walloon,
wo Wolof, xh Xhosa, yi Yiddish, yo Yoruba, za Zhuang, zh Chinese, zt Chinese (traditional), zu Zulu
"""
NAMES: dict[str, str] = {
    code: name
    for code, _, name in (entry.partition(" ") for entry in _NAMES.replace("\n", " ").strip().split(", "))
}


def is_code(code: str) -> bool:
    """Whether a text has the form of a language code, such as en, deu or pt-BR."""
    return len(code) <= LONGEST and CODE.fullmatch(code) is not None


def language_name(code: str) -> str:
    """Return the English name of a language, such as German or German (de-AT); the code where it is unknown."""
    base = code.partition("-")[0]
    return NAMES.get(code) or (f"{NAMES[base]} ({code})" if base in NAMES else code)


def language_of_files(files: Sequence[str]) -> str | None:
    """Return the language that the last such part of a file's name tells: `train.en`, `dev.de.gz`, `corpus.de.txt`."""
    for file in files:
        for suffix in reversed(Path(file).suffixes):
            if suffix[1:] in NAMES:
                return suffix[1:]
    return None


def parse_languages(text: str, option: str = "--languages") -> tuple[str, str]:
    """Return the codes of source and target in `en-de`, or in `en:pt-BR` where a code has a hyphen.

    Raises `ConfigError`.
    """
    codes = text.split(":") if ":" in text else text.split("-")
    if len(codes) != 2 or not all(map(is_code, codes)) or codes[0] == codes[1]:
        raise ConfigError(
            f"{option}: expected two language codes such as en-de, or en:pt-BR where a code has a hyphen, "
            f"found {text[: 3 * LONGEST]!r}"
        )
    return codes[0], codes[1]
