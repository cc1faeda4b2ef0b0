"""Who stands out: how many people in the population share a record, with intervals."""
