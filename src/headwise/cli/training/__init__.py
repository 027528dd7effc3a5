"""Commands that make models: data, training, and what is done with a trained run."""
