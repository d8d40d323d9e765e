"""The hardware: Amaranth components, one a file."""
