"""Scripts to copy from, and the demo. Each runs as `python -m examples.NAME`."""
