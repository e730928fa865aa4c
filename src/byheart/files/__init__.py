"""Write files and folders atomically, and read files that may be hostile."""
