"""Make tables and figures. Each is first computed as a small record and then drawn."""
