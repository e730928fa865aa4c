"""DPC24: associations and distributions in a single attention layer, without feed-forward layers."""
