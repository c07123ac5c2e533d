"""A trial on several GPUs: data parallel or sharded."""
