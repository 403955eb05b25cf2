class HostOnlyCUDAMemoryManager:
    pass
