class DeviceMemoryResource:
    pass


class CallbackMemoryResource(DeviceMemoryResource):
    pass
