"""The translation service: texts of any length in, texts out, by the models that the served runs hold."""
