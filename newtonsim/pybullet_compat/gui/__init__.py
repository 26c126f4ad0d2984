"""The window of clients that were connected as GUI: a page in the web browser."""
