"""Ways to look at a simulation: USD animations, still pictures and plots. Heavy libraries load when used."""
