"""What the answers of tables of other people's runs, real and planted, are worth."""
