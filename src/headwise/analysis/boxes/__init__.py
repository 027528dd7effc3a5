"""The computation inside every box of the Transformer's figure, for one sentence, step by step."""
