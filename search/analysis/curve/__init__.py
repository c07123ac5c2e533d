"""The loss over depth: fits of its curve, and their posterior."""
