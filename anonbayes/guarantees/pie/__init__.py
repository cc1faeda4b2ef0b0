"""Personal information entropy: how much a report says about who sent it (PIE 3 and 4)."""
