"""The words of the miniature world, and what is known of each."""
