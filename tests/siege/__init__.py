"""Attacks by the hundred on what a search keeps and on who may touch it: `make siege`."""
