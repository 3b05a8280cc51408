"""An app with a fenced model, commands and a migration that takes as long as a test wants."""
