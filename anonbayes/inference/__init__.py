"""Inference: the posterior of the population, and of hidden values, given a released table."""
