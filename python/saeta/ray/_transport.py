"""The tensor transport SAETA: sends tables between actors as tokens of shared memory."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from contextlib import suppress
from dataclasses import dataclass, field
from typing import Any, Never

import ray
from ray.cloudpickle import CloudPickler
from ray.experimental import register_tensor_transport
from ray.experimental.rdt import CommunicatorMetadata, TensorTransportManager, TensorTransportMetadata

from saeta._core import Context, Table
from saeta._share.tables import SharedTable, open_shared
from saeta.errors import UnsupportedError
from saeta.exchange import ContextLike, context_of

NAME = "SAETA"

_target: Context | None = None


@dataclass
class SharedTables(TensorTransportMetadata):  # type: ignore[misc] # Ray has no types that mypy may use
    """The metadata that Ray sends to the receiver: a token for each table."""

    tokens: list[SharedTable] = field(default_factory=list)


class TableTransport(TensorTransportManager):  # type: ignore[misc]
    """Shares the tables of an object when a task returns it, and opens them in the receiver.

    Opening does not involve the sending actor, so a busy sender causes no delay. A failed receiver needs no
    cleanup: its leases end with its connections.
    """

    def __init__(self) -> None:
        self._shared: dict[str, list[SharedTable]] = {}  # by object id; a token keeps the memory alive

    def tensor_transport_backend(self) -> str:
        return NAME

    @staticmethod
    def is_one_sided() -> bool:
        return True

    @staticmethod
    def can_abort_transport() -> bool:
        """True, because opening a table has a timeout and leaves neither side blocked."""
        return True

    def actor_has_tensor_transport(self, actor: Any) -> bool:
        """True. An actor that can't open the memory raises an error."""
        return True

    def extract_tensor_transport_metadata(self, obj_id: str, rdt_object: Sequence[Table]) -> SharedTables:
        _pickle_out_of_band()
        tokens = [table.share() for table in rdt_object]
        self._shared[obj_id] = tokens
        return SharedTables(
            tensor_meta=[((table.num_rows, table.num_columns), None) for table in rdt_object],
            tensor_device=_kind_of(rdt_object[0]) if rdt_object else None,
            tokens=tokens,
        )

    def get_communicator_metadata(
        self, src_actor: Any, dst_actor: Any, backend: str | None = None
    ) -> CommunicatorMetadata:
        return CommunicatorMetadata()

    def recv_multiple_tensors(
        self,
        obj_id: str,
        tensor_transport_metadata: SharedTables,
        communicator_metadata: CommunicatorMetadata,
        target_buffers: Sequence[Any] | None = None,
    ) -> list[Table]:
        if target_buffers:
            raise UnsupportedError(
                f"the transport {NAME} can't receive into existing buffers or onto a device that is set for "
                "a reference: call saeta.ray.receive_into in the process that receives"
            )
        return [open_shared(token, _target) for token in tensor_transport_metadata.tokens]

    def send_multiple_tensors(
        self, tensors: object, tensor_transport_metadata: object, communicator_metadata: object
    ) -> Never:
        raise UnsupportedError(f"receivers of the transport {NAME} open tables, and nothing is sent")

    def garbage_collect(self, obj_id: str, tensor_transport_meta: object, tensors: object) -> None:
        """Drops the tokens. The memory is freed when the last process that has it open drops it."""
        self._shared.pop(obj_id, None)

    def abort_transport(self, obj_id: str, communicator_metadata: object) -> None:
        """Does nothing: the connections of a receiver that failed are closed already."""


class _Reducer:
    """Pickles tables with Ray's reducer for a transport, and with the table's own for the object store.

    Once a process has used a transport, Ray's reducer stays registered for all pickling. In the object store
    it would pickle a table without out-of-band buffers, which copies it several times.
    """

    def __init__(self, by_ray: Callable[[Table], Any]) -> None:
        self._by_ray = by_ray

    def __call__(self, table: Table) -> Any:
        context = ray._private.worker.global_worker.get_serialization_context()
        by_transport = getattr(context._thread_local, "use_external_transport", False)
        return self._by_ray(table) if by_transport else table.__reduce_ex__(5)


def _pickle_out_of_band() -> None:
    """Replaces the reducer that Ray has just registered, the first time in a process."""
    by_ray = CloudPickler.dispatch.get(Table)
    if by_ray is not None and not isinstance(by_ray, _Reducer):
        CloudPickler.dispatch[Table] = _Reducer(by_ray)


def _kind_of(table: Table) -> str:
    """Returns the kind of device of a table, in PyTorch's words."""
    return "cpu" if table.device == "host" else "cuda"


def register_transport() -> None:
    """Registers the tensor transport "SAETA" in this process, for tables and columns.

    Afterwards `@ray.method(tensor_transport="SAETA")` marks methods of actors whose tables stay in the memory
    of the actor, and `ray.put(table, _tensor_transport="SAETA")` keeps a table in this process. Whoever uses
    the object opens the same memory: on the same machine nothing is copied, except once into shared memory
    when a host table is returned. The memory is free when the last reference to the object and the last table
    in it are gone.

    Call it before the class of the actor is defined. Ray registers the transport in the actors that this
    process creates. Calling it again does nothing.

    On a GPU a table is copied once on the device, unless its context has an exportable pool:
    `saeta.context("cuda:0", exportable_pool=True)`, before the first use of the GPU in the actor. Between
    machines, tables go through Ray's object store: leave `tensor_transport` out.

    Example:
        >>> import ray
        >>> import saeta.ray
        >>> saeta.ray.register_transport()
        >>> class Trips:
        ...     @ray.method(tensor_transport="SAETA")
        ...     def load(self, path):
        ...         return saeta.read_ipc(path)
        >>> reader = ray.remote(Trips)
    """
    with suppress(ValueError):  # registered already
        register_tensor_transport(NAME, ["cpu", "cuda"], TableTransport, Table)


def receive_into(ctx: ContextLike) -> None:
    """Sets the context of the tables that this process receives by the transport "SAETA".

    A table that is not in the memory of its device is copied there once: by peer access from another GPU, by
    an upload from the host. Without this call, and with None, tables arrive where they are: in the memory of
    the actor that made them.

    Ray shows an actor only the GPUs that it was assigned. To receive from another GPU, the process must see
    both: start Ray with the environment variable RAY_EXPERIMENTAL_NOSET_CUDA_VISIBLE_DEVICES=1 and choose a
    device in the actor.

    Args:
        ctx: a Context or the name of its device.

    Example:
        >>> import saeta.ray
        >>> saeta.ray.receive_into("host")
        >>> saeta.ray.receive_into(None)
    """
    global _target
    _target = None if ctx is None else context_of(ctx)
