"""Read options, documents, specifications and results safely, even if someone made them to do harm."""
