"""The documents that commands print with `--json`, as typed values. The command line and the page both show them."""
