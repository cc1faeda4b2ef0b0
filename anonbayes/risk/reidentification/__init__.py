"""Finding the sender of a report: attacks by an adversary who knows everybody's true value."""
