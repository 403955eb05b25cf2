from typing import Generic, TypeVar

T = TypeVar("T")


class DataFrame:
    pass


class Series(Generic[T]):
    pass
