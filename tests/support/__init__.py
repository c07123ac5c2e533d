"""What several tests share: simulated searches, a browser, a database server, damaged files."""
