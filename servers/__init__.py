"""Servers over HTTP: environment sessions, and the shop as a web site."""
