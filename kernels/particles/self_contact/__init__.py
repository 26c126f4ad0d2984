"""Self-contact of cloth and soft surfaces, and contact between them."""
