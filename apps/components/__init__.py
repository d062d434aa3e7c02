"""The connected components of a graph whose edges arrive as a stream: a topology with a loop."""
