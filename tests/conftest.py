"""What every test starts from: no server of the user's is ever touched."""

import os

# A test that needs a server starts one; it never finds the user's.
os.environ.pop("FENCELOCK_URL", None)
