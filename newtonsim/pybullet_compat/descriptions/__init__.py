"""What bodies are made from: records of links, joints and shapes, and their masses."""
