"""The hardware of a plan: the machine, its speed, its GPUs, its memory and its disk."""
