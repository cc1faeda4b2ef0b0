"""Anonymization schemes: from a cleartext frame to a `ReleasedTable`."""
