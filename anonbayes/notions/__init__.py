"""Notions of local privacy: what must hold of the probabilities of a report."""
