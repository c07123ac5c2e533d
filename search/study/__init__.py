"""From a study file to values, shapes and a plan."""
