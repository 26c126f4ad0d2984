"""Tasks of the benchmarks in newtonsim and its peers: a file a task, and one for what tasks share of one."""
