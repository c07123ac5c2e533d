"""`fathom check`: checks that one learning rate suits every depth and width of a study."""
