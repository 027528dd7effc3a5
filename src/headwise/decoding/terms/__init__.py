"""Terms that translations must contain: their automaton, and the search that places them."""
