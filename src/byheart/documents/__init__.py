"""The documents that commands print with `--json`, as typed values. The command line and the local web page both show them."""
