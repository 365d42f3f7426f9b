"""Trainers: algorithms as pure functions, and the loops that use them."""
