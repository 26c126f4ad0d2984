"""Examples that learn, each with packages besides this one."""
