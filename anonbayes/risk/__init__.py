"""Who is threatened, how much more than the general population, and how useful a release is."""
