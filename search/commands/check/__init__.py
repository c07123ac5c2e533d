"""`fathom check`: does one learning rate suit every depth and width of a study?"""
