"""Reading what may be hostile: options, documents, specifications, results."""
