"""Search, sampling and forced decoding, and the `Translator` that puts strings at their edges."""
