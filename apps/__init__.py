"""Applications: run from the checkout, made of public names only."""
