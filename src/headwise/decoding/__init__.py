"""Search, sampling and forced decoding; `translator` has strings at its edges."""
