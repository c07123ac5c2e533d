"""Helpers of several tests: simulated searches, a browser, a database server, damaged files."""
