"""What the heads of a model do, how much each matters, and what is left without some."""
