"""Who is threatened, how much more than the general population, and what a release is worth."""
