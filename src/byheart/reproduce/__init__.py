"""The figures of the three papers, each from fresh runs: specification, computed record, drawing, verdict."""
