"""Pages and files of a report: a study, its horizons, a comparison, the card, tables."""
