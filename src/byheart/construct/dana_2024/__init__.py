"""DPC24: associations and distributions in one layer of attention alone."""
