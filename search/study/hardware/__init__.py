"""The hardware of a plan: the machine, its speed, its GPUs, what fits its memory and its disk."""
