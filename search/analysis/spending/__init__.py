"""What compute, time and serving buy, from answers and laws."""
