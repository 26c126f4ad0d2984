"""Loggers of startStateLogging, one file for each kind."""
