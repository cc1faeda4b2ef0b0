"""Who stands out: people of the population who share a record, with intervals."""
