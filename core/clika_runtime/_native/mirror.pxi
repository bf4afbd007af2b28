@cython.final
cdef class Mirror:
    """Memory of the host, and as many bytes on a device that tensors lie over: what a step reads goes there in one copy.

    The host's side has the buffer protocol. With ``direct`` it is memory that the device reads by itself, where its
    backend has such: then `send` only queues the copy, and the bytes are left alone until something that was queued
    behind it has been waited for.

        mirror = Mirror(16, "cuda")
        numpy.frombuffer(mirror, numpy.int32)[:] = 7
        mirror.send()
        mirror.tensor(0, (4,), int32)
    """

    cdef Storage* storage
    cdef void* host
    cdef size_t nbytes
    cdef int32_t device
    cdef cbool direct

    def __cinit__(self, size_t nbytes, device, *, bint direct=True):
        self.device = device_id(device)
        self.nbytes = max(<size_t>1, nbytes)
        self.direct = direct
        self.storage = Storage.create(device_allocator(self.device), self.nbytes, self.device, False)
        if self.storage is NULL or self.storage.data() is NULL:
            raise_error(out_of_memory(b"", <int64_t>self.nbytes, self.device), "")
        self.host = mirror_allocate(self.device, self.nbytes, &self.direct)
        if self.host is NULL:
            raise _errors.OutOfMemoryError(f"cannot allocate {self.nbytes} bytes of the host for {device_object(self.device)}")
        memset(self.host, 0, self.nbytes)

    def __dealloc__(self):
        if self.host is not NULL:
            with nogil:
                mirror_release(self.device, self.host, self.nbytes, self.direct)
        if self.storage is not NULL:
            self.storage.drop()

    def __getbuffer__(self, Py_buffer* buffer, int flags):
        PyBuffer_FillInfo(buffer, self, self.host, <Py_ssize_t>self.nbytes, 0, flags)

    def __len__(self):
        return self.nbytes

    def tensor(self, int64_t offset, shape, dtype):
        """A tensor over the device's bytes from ``offset`` on."""
        cdef Tensor result = Tensor.__new__(Tensor)
        _set_shape(&result.record, shape, "Mirror.tensor")
        result.record.dtype = dtype_code(dtype)
        needed = dense_bytes(result.record.rank, result.record.shape, result.record.dtype)
        if offset < 0 or needed > <int64_t>self.nbytes - offset:
            raise invalid(f"Mirror.tensor: shape {list(result._sizes())} of {dtype.name} takes {needed} bytes from byte "
                          f"{offset} on, there are {self.nbytes}")
        result.record.set_contiguous_strides()
        result.record.offset = offset
        result.record.device = self.device
        self.storage.retain()
        result.record.storage = self.storage
        return result

    def send(self):
        """Copies the host's bytes to the device, in the order of the calls there."""
        cdef ErrorPtr error
        with nogil:
            error = mirror_send(self.device, self.storage.data(), self.host, self.nbytes, self.direct)
        if error.get() is not NULL:
            raise_error(error, "")
