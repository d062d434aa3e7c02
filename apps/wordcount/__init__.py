"""The words of a text, counted: README's first command."""
