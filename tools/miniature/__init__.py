"""The built-in miniature corpus: English-German sentence pairs generated from a bilingual grammar.

It gives new users data without a download, and analyses of attention a text with known structure: `generate` samples
sentence pairs from a small grammar, and every pair comes with its gold word alignment, the dependency trees of both
sides and the antecedent of each pronoun.

The modules, bottom-up: `nouns`, `verbs` and `modifiers` are tables of lemmas, which `lexicon` parses; `phrases`,
`clauses`, `linked` and `sentences` sample an abstract syntax tree (`syntax`) that fixes meaning and structure but
neither word order nor inflection; `english` and `german` (with `german_phrases` and `declension`) linearize the same
tree into the two sentences; `corpus` turns them into annotated pairs and splits them. `sayings` are fixed sentences,
greetings for example, that stand in the training text besides.

Three properties hold by construction and are tested:

- English determines German: equal sources have equal targets. Ambiguous sentences are not generated (*you* is
  always du, a pronoun has one possible antecedent, *the boys read* is not used because it hides its tense).
- The sets are disjoint, and every dev and test sentence contains a held-out combination, a pair of words that
  no training sentence combines (see `corpus.combinations`), while each of the words is in the training set.
- The same arguments give the same corpus in every process and on every machine, and a smaller training set is a
  prefix of a larger one.
"""

from tools.miniature.corpus import EXAMPLES, MiniatureCorpus, MiniaturePair, generate, write

__all__ = ["EXAMPLES", "MiniatureCorpus", "MiniaturePair", "generate", "write"]
