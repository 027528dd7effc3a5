"""The protocols of the translation service: LibreTranslate's, DeepL's and Headwise's own."""
