"""Connected clients: their table, locks, clocks and mirrors."""
