"""Making what RASD needs for a target: its own answers (`distil`), and an EAGLE head trained on them (`head`)."""
