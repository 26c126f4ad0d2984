"""Files of robots, whatever their format: where they lie, what XML is safe to read, what was left out."""
