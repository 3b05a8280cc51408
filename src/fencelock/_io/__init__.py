"""All code that moves bytes or sleeps: the wire format, and twins for threads and asyncio."""
