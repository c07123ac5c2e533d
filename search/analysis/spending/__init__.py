"""Value of compute, time and serving, from answers and laws."""
