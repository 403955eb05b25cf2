class MemoryPointer:
    pass
