"""Notions of local privacy: conditions on the probabilities of a report."""
