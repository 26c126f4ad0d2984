"""The command `newtonsim`, one file per subcommand."""
