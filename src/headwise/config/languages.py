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

# ISO 639-2's codes of the languages that ISO 639-1 has a code for, from https://salsa.debian.org/iso-codes-team/iso-codes
_LONG = """
aar aa, abk ab, afr af, aka ak, alb sq, amh am, ara ar, arg an, arm hy, asm as, ava av, ave ae, aym ay, aze az, bak
ba, bam bm, baq eu, bel be, ben bn, bih bh, bis bi, bod bo, bos bs, bre br, bul bg, bur my, cat ca, ces cs, cha ch,
che ce, chi zh, chu cu, chv cv, cor kw, cos co, cre cr, cym cy, cze cs, dan da, deu de, div dv, dut nl, dzo dz, ell
el, eng en, epo eo, est et, eus eu, ewe ee, fao fo, fas fa, fij fj, fin fi, fra fr, fre fr, fry fy, ful ff, geo ka,
ger de, gla gd, gle ga, glg gl, glv gv, gre el, grn gn, guj gu, hat ht, hau ha, heb he, her hz, hin hi, hmo ho, hrv
hr, hun hu, hye hy, ibo ig, ice is, ido io, iii ii, iku iu, ile ie, ina ia, ind id, ipk ik, isl is, ita it, jav jv,
jpn ja, kal kl, kan kn, kas ks, kat ka, kau kr, kaz kk, khm km, kik ki, kin rw, kir ky, kom kv, kon kg, kor ko, kua
kj, kur ku, lao lo, lat la, lav lv, lim li, lin ln, lit lt, ltz lb, lub lu, lug lg, mac mk, mah mh, mal ml, mao mi,
mar mr, may ms, mkd mk, mlg mg, mlt mt, mon mn, mri mi, msa ms, mya my, nau na, nav nv, nbl nr, nde nd, ndo ng, nep
ne, nld nl, nno nn, nob nb, nor no, nya ny, oci oc, oji oj, ori or, orm om, oss os, pan pa, per fa, pli pi, pol pl,
por pt, pus ps, que qu, roh rm, ron ro, rum ro, run rn, rus ru, sag sg, san sa, sin si, slk sk, slo sk, slv sl, sme
se, smo sm, sna sn, snd sd, som so, sot st, spa es, sqi sq, srd sc, srp sr, ssw ss, sun su, swa sw, swe sv, tah ty,
tam ta, tat tt, tel te, tgk tg, tgl tl, tha th, tib bo, tir ti, ton to, tsn tn, tso ts, tuk tk, tur tr, twi tw, uig
ug, ukr uk, urd ur, uzb uz, ven ve, vie vi, vol vo, wel cy, wln wa, wol wo, xho xh, yid yi, yor yo, zha za, zho zh,
zul zu
"""


# Languages that are written, or may be, in another script than Latin.
_NOT_LATIN = """
ab am ar as av ba be bg bh bn bo ce ckb cu cv dv dz el fa gu he hi hy ii iu ja ka kk km kn ko ks kv ky lo mk ml mn mr my
ne or os pa pi pnb ps ru sa sd si sr ta te tg th ti tt ug uk ur yi yue za zh
"""


def _by_code(entries: str) -> dict[str, str]:
    """Return what follows each code in a list of `CODE TEXT, …`."""
    split = (entry.partition(" ") for entry in entries.replace("\n", " ").strip().split(", "))
    return {code: text for code, _, text in split}


NAMES = _by_code(_NAMES)
_SHORT = _by_code(_LONG)
_OTHER_SCRIPTS = frozenset(_NOT_LATIN.split())
_SAME = {"zt": "zh", "pb": "pt", "nb": "no"}  # codes of LibreTranslate, and the other one of Norwegian


def is_code(code: str) -> bool:
    """Whether a text has the form of a language code, such as en, deu or pt-BR."""
    return len(code) <= LONGEST and CODE.fullmatch(code) is not None


def short_code(code: str) -> str:
    """Return a code with that of ISO 639-1 for its language, if there is one: `de` for `deu`, `pt-BR` for `por_BR`."""
    base, *rest = re.split("[-_]", code)
    return "-".join([_SHORT.get(base.lower(), base.lower()), *rest])


def base_code(code: str) -> str:
    """Return a code without its region, as a detector names the language: `pt` for `por_BR` and `pb`, `no` for `nb`."""
    base = short_code(code).partition("-")[0]
    return _SAME.get(base, base)


def is_latin(code: str) -> bool:
    """Whether a language is known to be written in Latin letters; an empty code is of an unknown one."""
    return code != "" and base_code(code) not in _OTHER_SCRIPTS


def find_language(codes: Sequence[str], wanted: str) -> int | None:
    """Return the place of a wanted language among codes: the same code, else one if either of the two has no region."""
    forms = [code.lower().replace("_", "-") for code in (*codes, wanted)]
    wanted = forms.pop()
    if wanted in forms:
        return forms.index(wanted)
    if "-" not in wanted:
        forms = [form.partition("-")[0] for form in forms]
    base = wanted.partition("-")[0]
    return forms.index(base) if base in forms else None


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


def parse_languages(text: str) -> tuple[str, str]:
    """Return the two codes in `en-de`, or in `en:pt-BR` where a code has a hyphen; raises `ConfigError`."""
    codes = text.split(":") if ":" in text else text.split("-")
    if len(codes) != 2 or not all(map(is_code, codes)) or codes[0] == codes[1]:
        raise ConfigError(
            f"--languages: expected two language codes such as en-de, or en:pt-BR where a code has a hyphen, "
            f"found {text[: 3 * LONGEST]!r}"
        )
    return codes[0], codes[1]
