"""`tokens`: next-token prediction on token ids that lie in files, and the files themselves."""
