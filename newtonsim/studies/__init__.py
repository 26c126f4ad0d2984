"""Parameter sweeps: sampling, batches, results on disk, clusters."""
