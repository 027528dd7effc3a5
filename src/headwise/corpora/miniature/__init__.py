"""The built-in miniature corpus: English sentences and their German translations, grown from a grammar.

A newcomer has no data at hand, and an analysis of attention needs text whose structure is known. This corpus
is both: `generate` draws sentence pairs from a small bilingual grammar, and every pair knows its word
alignment, the dependency trees of both sides and what each pronoun refers to.

How it works, from the words up: `nouns`, `verbs` and `modifiers` list the lemmas, `lexicon` reads them;
`phrases`, `clauses`, `linked` and `sentences` draw an abstract tree (`syntax`) that fixes meaning and
structure but no words' order or form; `english` and `german` (with `german_phrases` and `declension`) read
the two sentences off the same tree; `corpus` turns them into annotated pairs and splits them.

Three properties hold by construction and are tested:

- English determines German: equal sources have equal targets. What would be unclear is not drawn (*you* is
  always du, a pronoun has one possible antecedent, *the boys read* is not used because it hides its tense).
- The sets are disjoint, and every dev and test sentence contains a held-out combination, a pair of words that
  no training sentence combines (see `corpus.combinations`), while each of the words is in the training set.
- The same arguments give the same corpus in every process and on every machine, and a larger training set
  begins with the smaller one.
"""

from headwise.corpora.miniature.corpus import MiniatureCorpus, MiniaturePair, generate, write

__all__ = ["MiniatureCorpus", "MiniaturePair", "generate", "write"]
