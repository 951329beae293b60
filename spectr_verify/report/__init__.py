"""Tables for the terminal, and files for machines."""
