"""Still pictures, films and plots of runs."""
