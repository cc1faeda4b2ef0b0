"""Text files, netCDF files, and the one place that writes."""
