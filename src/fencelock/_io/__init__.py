"""What moves bytes, sleeps and wakes: the wire format, and twins for threads and for asyncio."""
