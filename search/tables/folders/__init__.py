"""Reads folders of runs that other programs logged, as text logs, tables or TensorBoard events."""
