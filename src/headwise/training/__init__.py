"""The training loop: its optimizer, schedule, loss, checkpoints and data parallelism.

What is trained is a `headwise.training.task.Task`.
"""
