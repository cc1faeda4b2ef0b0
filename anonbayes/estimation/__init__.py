"""Estimating the distribution of the true values from the reports of a channel."""
