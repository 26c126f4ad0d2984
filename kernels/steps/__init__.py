"""What steps of all solvers share: integration, reset, replay, rollouts."""
