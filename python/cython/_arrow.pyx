# distutils: language = c++
# cython: language_level=3, binding=True, embedsignature=True
"""Classes that derive from pyarrow's own, so that its functions take them: only Cython can make them.

They know nothing of Saeta's memory: what they hold comes from `saeta._bridge` as a pyarrow.Buffer, and what they do not
override is pyarrow's. The classes that users see derive from these in Python (saeta/cuda). Built against the pyarrow that is
installed; saeta.cuda says so where it finds another one.
"""

from libc.stdint cimport int64_t, uintptr_t
from libcpp cimport bool as c_bool
from libcpp.memory cimport shared_ptr

cimport cpython

from pyarrow.includes.common cimport CResult, CStatus, GetResultValue
from pyarrow.includes.libarrow cimport CBuffer, CMemoryPool, CMessage, COutputStream, CRandomAccessFile
from pyarrow.lib cimport Buffer, DictionaryMemo, MemoryManager, MemoryPool, Message, NativeFile, check_status

cdef extern from "arrow/buffer.h" namespace "arrow" nogil:
    CResult[shared_ptr[CRandomAccessFile]] get_reader "arrow::Buffer::GetReader"(shared_ptr[CBuffer] buffer)

cdef extern from "saeta/bridge/buffer_io.hpp" namespace "saeta" nogil:
    cdef cppclass CBufferWriter "saeta::buffer_writer"(COutputStream):
        CStatus WriteAt(int64_t position, const void* data, int64_t nbytes)
        CStatus Seek(int64_t position)
        CStatus SetBufferSize(int64_t nbytes)
        int64_t buffer_size() const
        int64_t num_bytes_buffered() const

cdef extern from "saeta/bridge/bridge.hpp" namespace "saeta":
    shared_ptr[CBuffer] slice_buffer(const shared_ptr[CBuffer]& of, int64_t offset, int64_t length) except +

cdef extern from "saeta/bridge/buffer_io.hpp" namespace "saeta":
    shared_ptr[CBufferWriter] make_writer "std::make_shared<saeta::buffer_writer>"(
        const shared_ptr[CBuffer]& target) except +


cdef class BufferBase(Buffer):
    """A pyarrow.Buffer whose content a subclass takes over from another one."""

    def __init__(self):
        raise TypeError("this class has no constructor")

    def _take(self, Buffer other not None):
        """Shares the memory of the other, as one object with it."""
        self.init(other.buffer)

    def _take_slice(self, Buffer whole not None, int64_t offset, int64_t length):
        """Becomes a slice, whose parent is `whole`."""
        self.init(slice_buffer(whole.buffer, offset, length))


cdef class DeviceBufferBase(BufferBase):
    """The same for memory that the CPU can't load."""

    cdef getitem(self, int64_t i):
        return self._byte(i)

    def __getbuffer__(self, cpython.Py_buffer* buffer, int flags):
        raise BufferError("buffer protocol for device buffer not supported")


cdef class BufferReaderBase(NativeFile):
    """Reads a buffer through its memory manager."""

    def _open(self, Buffer source not None):
        self.set_random_access_file(GetResultValue(get_reader(source.buffer)))
        self.is_readable = True


cdef class BufferWriterBase(NativeFile):
    """Writes a buffer through its memory manager."""

    cdef shared_ptr[CBufferWriter] writer

    def _open(self, Buffer target not None):
        self.writer = make_writer(target.buffer)
        self.set_output_stream(<shared_ptr[COutputStream]> self.writer)
        self.is_writable = True

    cdef CBufferWriter* opened(self) except NULL:
        self._assert_open()
        return self.writer.get()

    def _write_at(self, int64_t position, Buffer data not None):
        cdef:
            CBufferWriter* writer = self.opened()
            const CBuffer* source = data.buffer.get()
        with nogil:
            check_status(writer.WriteAt(position, <const void*> source.data(), source.size()))

    def _seek(self, int64_t position):
        cdef CBufferWriter* writer = self.opened()
        with nogil:
            check_status(writer.Seek(position))

    def _set_buffer_size(self, int64_t nbytes):
        cdef CBufferWriter* writer = self.opened()
        with nogil:
            check_status(writer.SetBufferSize(nbytes))

    def _buffer_size(self):
        return self.opened().buffer_size()

    def _num_bytes_buffered(self):
        return self.opened().num_bytes_buffered()


def message_at(uintptr_t address):
    """Takes over an arrow::ipc::Message that was made with `new`."""
    cdef Message result = Message.__new__(Message)
    result.message.reset(<CMessage*> address)
    return result


def memory_manager_of(Buffer of not None):
    """The memory manager of a buffer, as pyarrow's own object."""
    return MemoryManager.wrap(of.buffer.get().memory_manager())


def pool_address(MemoryPool pool):
    """Where the pool's C++ object is; 0 for None."""
    return 0 if pool is None else <uintptr_t> pool.pool


def memo_address(DictionaryMemo memo):
    """Where the memo's C++ object is; 0 for None."""
    return 0 if memo is None else <uintptr_t> memo.memo
