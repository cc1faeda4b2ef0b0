"""Privacy notions, and audits that check them on a channel's exact probabilities."""
