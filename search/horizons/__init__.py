"""Studies that are searched at several horizons: a run folder for each, in one."""
