"""Guards: each finds a defect in what a search gave, and says what the second search must do about it."""
