"""From records to answers; numpy and scipy only, so that any machine can conclude again."""
