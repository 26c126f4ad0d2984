"""Files of robots in any format: where they are, what XML is safe to read, what was left out."""
