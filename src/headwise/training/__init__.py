"""The loop, and what it needs: it has no idea what is being learned (a task tells it)."""
