"""Tables and figures: first a small record of what is shown, then its drawing."""
