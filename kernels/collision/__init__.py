"""Contacts of the collision pass: `pairs` finds candidates, `families` narrows them down, the result is
packed."""
