"""The analysis of records; numpy and scipy only, so that any machine can conclude again."""
