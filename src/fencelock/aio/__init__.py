"""fencelock for asyncio: thin faces over the flows of ``_core``."""
