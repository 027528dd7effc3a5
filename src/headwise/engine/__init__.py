"""Engines that search translations; `translator` has strings at its edges."""
