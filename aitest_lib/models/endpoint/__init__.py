"""Models behind HTTP: what a call carries, how it is sent, how its answer is read."""
