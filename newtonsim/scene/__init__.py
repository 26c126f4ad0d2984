"""What is simulated: the model, its states and controls, and the layout of their arrays."""
