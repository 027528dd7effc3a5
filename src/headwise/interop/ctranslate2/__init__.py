"""CTranslate2's directories of a Transformer: model.bin, config.json, vocabularies, and SentencePiece models."""
