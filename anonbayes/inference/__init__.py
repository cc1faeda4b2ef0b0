"""Inference: what a released table says about the population and about its rows."""
