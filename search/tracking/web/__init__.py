"""The page of MLflow, served beside Fathom's reports."""
