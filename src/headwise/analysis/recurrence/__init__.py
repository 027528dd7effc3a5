"""Recurrence beside attention: the state that is passed on, the gradient against distance, time against length."""
