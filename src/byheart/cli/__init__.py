"""The command line. Each command reads its input, calls one public function, prints the result and sets the exit status."""
