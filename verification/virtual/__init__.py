"""Hours in seconds: the shipping asyncio client on a loop whose clock jumps to the next timer."""
