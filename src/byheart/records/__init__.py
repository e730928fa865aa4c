"""Read options, documents, specifications and results safely, even if they were written to do harm."""
