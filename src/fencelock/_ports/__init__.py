"""How the flows touch the world: once for threads, once for asyncio."""
