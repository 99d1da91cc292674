"""Scripts to copy from, and the demo."""
