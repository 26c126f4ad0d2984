"""What is simulated: the model, its states and controls, and how their arrays are laid out."""
