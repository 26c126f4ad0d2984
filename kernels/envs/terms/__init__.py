"""Terms of tasks: observations, rewards, ends and events of which tasks are put together."""
