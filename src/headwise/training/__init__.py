"""The training loop and what it needs: a task says what is being learned."""
