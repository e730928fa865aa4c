"""The command line: a thin shell that reads, calls one public function, shows, and sets the exit status."""
