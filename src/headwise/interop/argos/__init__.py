"""Packages of Argos Translate and LibreTranslate: a CTranslate2 model and a SentencePiece model in a zip file."""
