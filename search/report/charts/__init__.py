"""The charts of the report, and their drawing for the page and for papers."""
