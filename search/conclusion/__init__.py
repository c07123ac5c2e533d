"""What trials show: the findings of any that were trained, and the conclusion of a study."""
