"""The charts of the report, and how they are drawn on the page and on paper."""
