"""What the benchmarks simulate, the same for every engine: scenes, robots, losses and scripts."""
