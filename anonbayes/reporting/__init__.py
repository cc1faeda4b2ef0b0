"""One self-contained HTML page from a posterior and its assessment.

`html` puts the page together from `verdict` (plain words), `sections` (tables), `rows` (the
interactive table) and `pictures`; `limits` compares an assessment with what is acceptable.
"""
