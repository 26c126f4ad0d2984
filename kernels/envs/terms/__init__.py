"""Terms of which tasks consist: observations, rewards, ends and events."""
