"""Model directories of Hugging Face's `transformers`, one module for each architecture."""
