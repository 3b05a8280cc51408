"""What dev.py runs beside the tests: the generated face, the site, and checks of releases."""
