"""What is edited lately: a window over a stream that rises and falls, as an application."""
