"""Runs kernels of the CPU backend's table directly, without the core: torch tensors in, torch
tensors out.

Example::

    cpu = Kernels("avx2", threads=2)
    (y,) = cpu("rms_norm", [x, weight], [empty_like(x)], scalars=[1e-6, 0.0])

A packed weight is ``Packed(bytes, shape, scheme, layout)``; None is an absent optional argument; a
list is a sequence argument.

With ``CLIKA_KERNEL_SERVER`` set to a command (a kernel server, see kernel_server.cpp, maybe under
an emulator) the kernels run there: the same tests cover another architecture.
"""

from __future__ import annotations

import atexit
import ctypes
import functools
import os
import shlex
import struct
import subprocess
import threading
from dataclasses import dataclass
from typing import Any

import torch

c_i32, c_i64, c_u32, c_u64 = ctypes.c_int32, ctypes.c_int64, ctypes.c_uint32, ctypes.c_uint64
voidp = ctypes.c_void_p

DTYPES = {
    torch.bool: 1,
    torch.int8: 4,
    torch.int16: 5,
    torch.int32: 6,
    torch.int64: 7,
    torch.uint8: 11,
    torch.uint16: 12,
    torch.uint32: 13,
    torch.uint64: 14,
    torch.float16: 15,
    torch.bfloat16: 16,
    torch.float32: 17,
    torch.float64: 18,
    torch.float8_e4m3fn: 19,
    torch.float8_e5m2: 20,
    torch.float8_e4m3fnuz: 21,
    torch.float8_e5m2fnuz: 22,
}
#: Bytes of an element of a dense weight.
ITEM = {code: dtype.itemsize for dtype, code in DTYPES.items()}


def clika_block(scheme: int) -> tuple[int, int]:
    """Columns and bytes of a published block."""
    from clika_runtime.io import SCHEMES

    return SCHEMES[scheme].columns, SCHEMES[scheme].nbytes


SERVER = os.environ.get("CLIKA_KERNEL_SERVER", "")
LEVELS = ("portable", "dotprod", "i8mm") if SERVER else ("portable", "avx2", "avx512")


class Value(ctypes.Structure):
    pass


Value._fields_ = [
    ("data", voidp),
    ("shape", ctypes.POINTER(c_i64)),
    ("strides", ctypes.POINTER(c_i64)),
    ("rank", c_i32),
    ("dtype", c_i32),
    ("scheme", c_i32),
    ("layout", c_i32),
    ("kind", c_i32),
    ("n_items", c_i32),
    ("items", ctypes.POINTER(Value)),
    ("nbytes", c_i64),
]


class AttrUnion(ctypes.Union):
    _fields_ = [
        ("i", c_i64),
        ("f", ctypes.c_double),
        ("ints", ctypes.POINTER(c_i64)),
        ("floats", ctypes.POINTER(ctypes.c_double)),
        ("text", ctypes.c_char_p),
    ]


class Attr(ctypes.Structure):
    _fields_ = [("kind", c_i32), ("n", c_i32), ("v", AttrUnion)]


class Scalar(ctypes.Structure):
    _fields_ = [("i", c_i64), ("f", ctypes.c_double), ("is_float", c_i32), ("is_none", c_i32)]


class Call(ctypes.Structure):
    pass


RANGE = ctypes.CFUNCTYPE(None, voidp, c_i64, c_i64, c_i32)
CALL = ctypes.POINTER(Call)


class Core(ctypes.Structure):
    _fields_ = [
        ("size", c_u32),
        ("abi", c_u32),
        ("parallel_for", ctypes.CFUNCTYPE(None, CALL, c_i64, c_i64, RANGE, voidp)),
        ("num_threads", ctypes.CFUNCTYPE(c_i32)),
        ("scratch", ctypes.CFUNCTYPE(voidp, CALL, ctypes.c_size_t)),
        ("allocate_output", ctypes.CFUNCTYPE(c_i32, CALL, c_u32, c_i32, ctypes.POINTER(c_i64))),
        ("set_error", ctypes.CFUNCTYPE(c_i32, CALL, c_i32, ctypes.c_char_p, ctypes.c_char_p)),
        ("cancelled", ctypes.CFUNCTYPE(c_i32, CALL)),
        ("log", ctypes.CFUNCTYPE(None, c_i32, ctypes.c_char_p)),
    ]


Call._fields_ = [
    ("size", c_u32),
    ("n_inputs", c_u32),
    ("n_outputs", c_u32),
    ("n_attrs", c_u32),
    ("n_scalars", c_u32),
    ("reserved", c_u32),
    ("inputs", ctypes.POINTER(Value)),
    ("outputs", ctypes.POINTER(Value)),
    ("attrs", ctypes.POINTER(Attr)),
    ("scalars", ctypes.POINTER(Scalar)),
    ("workspace", voidp),
    ("workspace_bytes", ctypes.c_size_t),
    ("stream", voidp),
    ("core", ctypes.POINTER(Core)),
    ("context", voidp),
]
KERNEL = ctypes.CFUNCTYPE(c_i32, CALL)
WORKSPACE = ctypes.CFUNCTYPE(ctypes.c_size_t, CALL)


class Kernel(ctypes.Structure):
    _fields_ = [
        ("op", ctypes.c_char_p),
        ("name", ctypes.c_char_p),
        ("run", KERNEL),
        ("workspace", WORKSPACE),
        ("input_dtypes", c_u64 * 8),
        ("input_schemes", c_u64 * 8),
        ("output_dtypes", c_u64),
        ("min_rank", c_i32),
        ("max_rank", c_i32),
        ("flags", c_u32),
        ("reserved", c_u32),
    ]


class PackInfo(ctypes.Structure):
    _fields_ = [("size", c_u32), ("layout", c_i32), ("nbytes", c_i64)]


PACK_INFO = ctypes.CFUNCTYPE(c_i32, ctypes.POINTER(Value), c_i32, ctypes.POINTER(PackInfo))
PACK = ctypes.CFUNCTYPE(c_i32, CALL, c_i32)


class BackendTable(ctypes.Structure):
    _fields_ = [
        ("size", c_u32),
        ("abi", c_u32),
        ("name", ctypes.c_char_p),
        ("kernels", ctypes.POINTER(Kernel)),
        ("n_kernels", c_u32),
        ("kernel_size", c_u32),
        *[
            (name, voidp)
            for name in (
                "device_count device_properties allocate release memory_info stream_create "
                "stream_destroy stream_synchronize stream_native_handle event_record event_wait "
                "event_query event_destroy copy"
            ).split()
        ],
        ("pack_info", PACK_INFO),
        ("pack", PACK),
        ("unpack", KERNEL),
    ]


@dataclass
class Packed:
    """A weight in a quantization scheme or, dense, in a layout of the backend's: payload bytes
    (uint8 tensor) and logical shape."""

    data: torch.Tensor
    shape: tuple[int, ...]
    scheme: int
    layout: int = 0
    dtype: int = 17


class KernelError(Exception):
    """A kernel returned an error status."""

    def __init__(self, status: int, code: str, message: str) -> None:
        super().__init__(f"{code} ({status}): {message}")
        self.status = status
        self.code = code


def usable_levels() -> list[str]:
    """Levels that this machine can run, the portable one first."""
    return list(LEVELS[: LEVELS.index(best_level()) + 1])


@functools.lru_cache
def best_level() -> str:
    """The best level of the machine, or of the one that the kernel server emulates."""
    if SERVER:
        return Reply(Server.shared().ask(b"\0")).text()
    from clika_runtime_cpu import _kernels

    return _kernels.level()


# ---------------------------------------------------------------- kernels behind a pipe
class Server:
    """A kernel server process. Requests and replies are a length of 8 bytes and a payload."""

    _shared: Server | None = None

    def __init__(self, command: str = SERVER) -> None:
        self.process = subprocess.Popen(
            shlex.split(command), stdin=subprocess.PIPE, stdout=subprocess.PIPE
        )
        self.lock = threading.Lock()
        atexit.register(self.process.kill)

    @classmethod
    def shared(cls) -> Server:
        if cls._shared is None:
            cls._shared = Server()
        return cls._shared

    def ask(self, request: bytes) -> bytes:
        pipe = self.process
        assert pipe.stdin and pipe.stdout
        with self.lock:
            pipe.stdin.write(struct.pack("<Q", len(request)) + request)
            pipe.stdin.flush()
            size = pipe.stdout.read(8)
            if len(size) < 8:
                raise RuntimeError(f"the kernel server ended with code {pipe.wait()}")
            return pipe.stdout.read(struct.unpack("<Q", size)[0])


class Reply:
    """Reads a reply from its start."""

    def __init__(self, payload: bytes) -> None:
        self.payload = payload
        self.at = 0

    def numbers(self, form: str) -> tuple[Any, ...]:
        found = struct.unpack_from("<" + form, self.payload, self.at)
        self.at += struct.calcsize("<" + form)
        return found

    def bytes(self, size: int) -> bytes:
        self.at += size
        return self.payload[self.at - size : self.at]

    def text(self) -> str:
        return self.bytes(self.numbers("I")[0]).decode()


def _text(value: str) -> bytes:
    return struct.pack("<I", len(value.encode())) + value.encode()


class Request:
    """One call as bytes. Tensors that share a storage share a buffer of the server."""

    def __init__(self) -> None:
        self.storages: list[torch.UntypedStorage] = []

    def value(self, x: Any) -> bytes:
        if x is None:
            return b"\0"
        if isinstance(x, list):
            return b"\2" + self.values(x)
        data = x.data if isinstance(x, Packed) else x
        storage = data.untyped_storage()
        known = [s.data_ptr() for s in self.storages]
        if storage.data_ptr() not in known or not storage.nbytes():
            self.storages.append(storage)
            known.append(storage.data_ptr())
        offset = data.storage_offset() * data.element_size()
        head = struct.pack("<BIq", 1, known.index(storage.data_ptr()), offset)
        rank = len(x.shape)
        shape = struct.pack(f"<{rank}q", *x.shape)
        if isinstance(x, Packed):
            size = data.numel() * data.element_size()
            numbers = struct.pack("<iiiiq", x.dtype, x.scheme, x.layout, rank, size)
            return head + numbers + shape + b"\0"
        span = sum((n - 1) * s for n, s in zip(x.shape, x.stride(), strict=True)) + 1
        size = max(0, span) * x.element_size() if x.numel() else 0
        numbers = struct.pack("<iiiiq", DTYPES[x.dtype], 0, 0, rank, size)
        return head + numbers + shape + b"\1" + struct.pack(f"<{rank}q", *x.stride())

    def values(self, items: list[Any]) -> bytes:
        return struct.pack("<I", len(items)) + b"".join(self.value(item) for item in items)

    @staticmethod
    def attr(a: Any) -> bytes:
        if a is None:
            return struct.pack("<ii", 0, 0)
        if isinstance(a, torch.dtype):
            a = DTYPES[a]
        if isinstance(a, float):
            return struct.pack("<iid", 2, 0, a)
        if isinstance(a, (list, tuple)):
            return struct.pack(f"<ii{len(a)}q", 3, len(a), *a)
        return struct.pack("<iiq", 1, 0, int(a))

    def send(
        self,
        verb: int,
        kernels: Kernels,
        op: str,
        inputs: list[Any],
        outputs: list[Any],
        attrs: Any = (),
        scalars: Any = (),
        mode: int = 0,
    ) -> tuple[int, Reply]:
        """Status and the rest of the reply; what the kernel wrote is in the storages."""
        values = self.values(inputs) + self.values(outputs)
        head = (
            struct.pack("<B", verb)
            + _text(kernels.level)
            + struct.pack("<iq", kernels.threads, kernels.grain or 0)
        )
        arrays = [
            torch.tensor([], dtype=torch.uint8).set_(storage, 0, (storage.nbytes(),), (1,))
            for storage in self.storages
        ]
        buffers = struct.pack("<I", len(arrays)) + b"".join(
            struct.pack("<Q", a.numel()) + a.numpy().tobytes() for a in arrays
        )
        tail = struct.pack("<I", len(attrs)) + b"".join(self.attr(a) for a in attrs)
        tail += struct.pack("<I", len(scalars))
        for s in scalars:
            whole = int(s or 0) if not isinstance(s, float) or s == s and abs(s) < 2**62 else 0
            tail += struct.pack("<qdii", whole, float(s or 0), isinstance(s, float), s is None)
        reply = Reply(
            Server.shared().ask(
                head + buffers + _text(op) + values + tail + struct.pack("<i", mode)
            )
        )
        (status,) = reply.numbers("i")
        code, message = reply.text(), reply.text()
        kernels.error = (status, code, message) if status else None
        kernels.packed_as = reply.numbers("iq")
        for array in arrays:
            written = bytearray(reply.bytes(array.numel()))
            if written:
                array.copy_(torch.frombuffer(written, dtype=torch.uint8))
        return status, reply


class Kernels:
    """The kernel table of one level. ``threads`` is what the kernels see as the pool's size."""

    def __init__(
        self, level: str | None = None, threads: int = 1, grain: int | None = None
    ) -> None:
        self.level = level or ""
        self.threads = threads
        self.grain = grain  # overrides every kernel's grain, to force odd splits
        if SERVER:
            return
        from clika_runtime_cpu import _kernels

        get = ctypes.pythonapi.PyCapsule_GetPointer
        get.restype = voidp
        get.argtypes = [ctypes.py_object, ctypes.c_char_p]
        capsule = _kernels.backend(level)
        pointer = get(capsule, b"clika_runtime.backend")
        self.table = ctypes.cast(pointer, ctypes.POINTER(BackendTable)).contents
        self.kept: dict[int, list[Any]] = {}
        self.error: tuple[int, str, str] | None = None
        self.allocated: dict[int, torch.Tensor] = {}
        core = Core()
        core.size = ctypes.sizeof(Core)
        core.abi = 1
        members = dict(core._fields_)
        core.parallel_for = members["parallel_for"](self._parallel_for)
        core.num_threads = members["num_threads"](lambda: self.threads)
        core.scratch = members["scratch"](self._scratch)
        core.allocate_output = members["allocate_output"](self._allocate_output)
        core.set_error = members["set_error"](self._set_error)
        core.cancelled = members["cancelled"](lambda call: 0)
        core.log = members["log"](lambda level, message: None)
        self.core = core

    # ------------------------------------------------------------------ what the core would give
    def _parallel_for(self, call: Any, n: int, grain: int, fn: Any, arg: Any) -> None:
        grain = max(1, self.grain or grain)
        pieces = [(b, min(n, b + grain)) for b in range(0, n, grain)]
        if self.threads == 1:
            for begin, end in pieces:
                fn(arg, begin, end, 0)
            return

        def work(worker: int) -> None:
            for begin, end in pieces[worker :: self.threads]:
                fn(arg, begin, end, worker)

        workers = [threading.Thread(target=work, args=(i,)) for i in range(self.threads)]
        for thread in workers:
            thread.start()
        for thread in workers:
            thread.join()

    def _scratch(self, call: Any, size: int) -> int:
        # Filled with NaN patterns, so that a kernel that reads what it never wrote is noticed.
        block = torch.full((size + 128,), 0xFF, dtype=torch.uint8)
        self.scratch_blocks.append(block)
        return (block.data_ptr() + 63) // 64 * 64

    def _allocate_output(self, call: Any, i: int, rank: int, shape: Any) -> int:
        raise AssertionError("no kernel of this backend has data-dependent shapes yet")

    def _set_error(self, call: Any, status: int, code: bytes, message: bytes) -> int:
        self.error = (status, code.decode(), message.decode())
        return status

    # ------------------------------------------------------------------ calls
    def value(self, x: Any, keep: list[Any]) -> Value:
        v = Value()
        if x is None:
            return v
        if isinstance(x, list):
            items = (Value * max(1, len(x)))(*[self.value(i, keep) for i in x])
            keep.append(items)
            v.kind, v.items, v.n_items = 2, items, len(x)
            return v
        shape = (c_i64 * max(1, len(x.shape)))(*x.shape)
        keep += [x, shape]
        v.kind = 1
        v.shape = shape
        v.rank = len(x.shape)
        if isinstance(x, Packed):
            v.data = x.data.data_ptr()
            v.dtype, v.scheme, v.layout = x.dtype, x.scheme, x.layout
            v.nbytes = x.data.numel() * x.data.element_size()
            return v
        strides = (c_i64 * max(1, x.dim()))(*x.stride())
        keep.append(strides)
        v.data = x.data_ptr()
        v.strides = strides
        v.dtype = DTYPES[x.dtype]
        span = sum((n - 1) * s for n, s in zip(x.shape, x.stride(), strict=True)) + 1
        v.nbytes = max(0, span) * x.element_size() if x.numel() else 0
        return v

    def find(self, op: str, inputs: list[Any], outputs: list[Any]) -> Kernel:
        """Return the first entry whose masks fit, as the core's kernel choice does."""
        keep: list[Any] = []
        ins = [self.value(x, keep) for x in inputs]
        outs = [self.value(x, keep) for x in outputs]
        for k in range(self.table.n_kernels):
            kernel = self.table.kernels[k]
            if kernel.op.decode() != op:
                continue
            ok = all(
                self._fits(v, kernel.input_dtypes[min(i, 7)], kernel.input_schemes[min(i, 7)])
                for i, v in enumerate(ins)
            )
            if ok and (not outs or kernel.output_dtypes >> outs[0].dtype & 1):
                return kernel
        raise KeyError(f"no entry of '{op}' fits")

    def _fits(self, v: Value, dtypes: int, schemes: int) -> bool:
        if v.kind == 0:
            return True
        if v.kind == 2:
            return all(self._fits(v.items[i], dtypes, schemes) for i in range(v.n_items))
        scheme_fits = schemes >> v.scheme & 1 if schemes else v.scheme == v.layout == 0
        return bool(dtypes >> v.dtype & 1 and scheme_fits)

    def call(
        self, inputs: list[Any], outputs: list[Any], attrs: Any = (), scalars: Any = ()
    ) -> tuple[Call, list[Any]]:
        """Build a call record; the list keeps its parts alive."""
        keep: list[Any] = []
        ins = (Value * max(1, len(inputs)))(*[self.value(x, keep) for x in inputs])
        outs = (Value * max(1, len(outputs)))(*[self.value(x, keep) for x in outputs])
        packed_attrs = (Attr * max(1, len(attrs)))()
        for slot, a in zip(packed_attrs, attrs, strict=False):
            if a is None:
                continue
            if isinstance(a, torch.dtype):
                slot.kind, slot.v.i = 1, DTYPES[a]
            elif isinstance(a, float):
                slot.kind, slot.v.f = 2, a
            elif isinstance(a, (list, tuple)):
                ints = (c_i64 * max(1, len(a)))(*a)
                keep.append(ints)
                slot.kind, slot.n, slot.v.ints = 3, len(a), ints
            else:
                slot.kind, slot.v.i = 1, int(a)
        packed_scalars = (Scalar * max(1, len(scalars)))()
        for slot, s in zip(packed_scalars, scalars, strict=False):
            slot.is_none = s is None
            slot.is_float = isinstance(s, float)
            slot.f = float(s or 0)
            slot.i = int(s or 0) if not isinstance(s, float) or s == s and abs(s) < 2**62 else 0
        keep += [ins, outs, packed_attrs, packed_scalars]
        call = Call()
        call.size = ctypes.sizeof(Call)
        call.n_inputs, call.n_outputs = len(inputs), len(outputs)
        call.n_attrs, call.n_scalars = len(attrs), len(scalars)
        call.inputs, call.outputs = ins, outs
        call.attrs, call.scalars = packed_attrs, packed_scalars
        call.core = ctypes.pointer(self.core)
        return call, keep

    def __call__(
        self,
        op: str,
        inputs: list[Any],
        outputs: list[Any],
        attrs: Any = (),
        scalars: Any = (),
    ) -> list[Any]:
        if SERVER:
            return self.remote_call(op, inputs, outputs, attrs, scalars)
        kernel = self.find(op, inputs, outputs)
        if not kernel.flags & 1:
            inputs = [x.contiguous() if isinstance(x, torch.Tensor) else x for x in inputs]
        call, keep = self.call(inputs, outputs, attrs, scalars)
        return self.finish(lambda: kernel.run(call), kernel, call, keep, outputs)

    def remote_call(
        self, op: str, inputs: list[Any], outputs: list[Any], attrs: Any, scalars: Any
    ) -> list[Any]:
        status, _ = Request().send(1, self, op, inputs, outputs, attrs, scalars)
        if status == 1000:  # the kernel takes contiguous inputs only
            inputs = [x.contiguous() if isinstance(x, torch.Tensor) else x for x in inputs]
            status, _ = Request().send(1, self, op, inputs, outputs, attrs, scalars)
        if status:
            assert self.error
            if self.error[1] == "NO_ENTRY":
                raise KeyError(f"no entry of '{op}' fits")
            raise KernelError(*self.error)
        return outputs

    def finish(self, run: Any, kernel: Any, call: Call, keep: Any, outputs: list[Any]) -> Any:
        self.scratch_blocks: list[torch.Tensor] = []
        self.error = None
        if kernel is not None and ctypes.cast(kernel.workspace, voidp).value:
            size = kernel.workspace(call)
            call.workspace = self._scratch(None, size)
            call.workspace_bytes = size
        status = run()
        self.scratch_blocks = []
        if status:
            raise KernelError(*(self.error or (status, "INTERNAL", "no message")))
        return outputs

    def pack(self, weight: Packed | torch.Tensor, mode: int) -> Packed | None:
        """Repack a weight as the loader does; None when the backend keeps it as published."""
        if SERVER:
            return self.remote_pack(weight, mode)
        keep: list[Any] = []
        value = self.value(weight, keep)
        info = PackInfo()
        info.size = ctypes.sizeof(PackInfo)
        if not ctypes.cast(self.table.pack_info, voidp).value:
            return None
        status = self.table.pack_info(ctypes.byref(value), mode, ctypes.byref(info))
        if status:
            raise KernelError(status, "PACK", "pack_info failed")
        if info.layout == 0:
            return None
        block = torch.zeros(info.nbytes + 64, dtype=torch.uint8)
        start = (-block.data_ptr()) % 64
        out = Packed(
            block[start : start + info.nbytes],
            tuple(weight.shape),
            value.scheme,
            info.layout,
            value.dtype,
        )
        call, kept = self.call([weight], [out])
        self.finish(lambda: self.table.pack(call, mode), None, call, kept, [out])
        return out

    def unpack(self, packed: Packed, short: int = 0) -> Packed:
        """A packed weight as it was published; ``short`` bytes of its output are missing."""
        columns, nbytes = clika_block(packed.scheme) if packed.scheme else (1, ITEM[packed.dtype])
        rows, width = packed.shape
        data = torch.full((rows * width // columns * nbytes - short,), 0xA5, dtype=torch.uint8)
        out = Packed(data, packed.shape, packed.scheme, 0, packed.dtype)
        if SERVER:
            status, _ = Request().send(4, self, "", [packed], [out])
            if status:
                assert self.error
                raise KernelError(*self.error)
            return out
        call, kept = self.call([packed], [out])
        self.finish(lambda: self.table.unpack(call), None, call, kept, [out])
        return out

    def remote_pack(self, weight: Packed | torch.Tensor, mode: int) -> Packed | None:
        status, _ = Request().send(2, self, "", [weight], [], mode=mode)
        if status:
            raise KernelError(status, "PACK", "pack_info failed")
        layout, size = self.packed_as
        if layout == 0:
            return None
        scheme, dtype = (
            (weight.scheme, weight.dtype)
            if isinstance(weight, Packed)
            else (0, DTYPES[weight.dtype])
        )
        data = torch.zeros(size, dtype=torch.uint8)
        out = Packed(data, tuple(weight.shape), scheme, layout, dtype)
        status, _ = Request().send(3, self, "", [weight], [out], mode=mode)
        if status:
            assert self.error
            raise KernelError(*self.error)
        return out
