"""How kernels run: compilation, launches, capture into graphs, shards of worlds, devices."""
