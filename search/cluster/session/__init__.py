"""Ray as a search uses it: joined or started, kept from other users, its end noticed."""
