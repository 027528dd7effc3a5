"""Commands that use models: translating, scoring, predicting, serving."""
