"""What commands print with `--json`, as typed values: the command line prints them, and the page shows them."""
