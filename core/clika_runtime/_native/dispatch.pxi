# Op: one vectorcall class for every operator.
from ..ops.record import REQUIRED, Meta, View

cdef extern from "Python.h":
    ctypedef PyObject* (*vectorcallfunc)(PyObject*, PyObject* const*, size_t, PyObject*) except NULL
    ctypedef struct PyTypeObject:
        PyObject* tp_dict
        Py_ssize_t tp_vectorcall_offset
        unsigned long tp_flags
        void* tp_call
    unsigned long Py_TPFLAGS_HAVE_VECTORCALL
    void* PyVectorcall_Call
    void PyType_Modified(PyTypeObject*)
    Py_ssize_t PyVectorcall_NARGS(size_t)
    int PyErr_CheckSignals() except -1
    ctypedef struct PyThreadState:
        pass
    PyThreadState* PyEval_SaveThread()
    void PyEval_RestoreThread(PyThreadState*)

cdef enum:
    _TENSOR = 0
    _STATIC = 1
    _SCALAR = 2
    _MAX_ARGS = 24
    _KEY = 8192

cdef DispatchCounters* _counts = &counters()
cdef dict _OPS = {}
cdef dict _METHODS = {}
cdef dict _PLAIN = {}


cdef object get_op(str name):
    """The callable of an operator; its record is loaded on first need."""
    found = _OPS.get(name)
    if found is None:
        from .. import ops

        found = _OPS[name] = getattr(ops, name)
    return found


def plain_op(str name):
    """The `Op` of a record, without what a ``front`` puts before it."""
    found = _PLAIN.get(name)
    if found is None:
        from .. import ops

        found = _PLAIN[name] = Op(ops.record(name))
    return found


cdef object method_op(str name):
    """The operator behind a Tensor method, or None."""
    try:
        return _METHODS[name]
    except KeyError:
        pass
    from .. import ops

    record = ops.method_record(name)
    found = None if record is None else get_op(record.name)
    _METHODS[name] = found
    return found


cdef struct Key:
    size_t n
    char data[_KEY]


cdef inline int key_bytes(Key* key, const void* data, size_t n) except -1:
    if key.n + n > _KEY:
        raise invalid("the call's arguments are too many for one operator call")
    memcpy(key.data + key.n, data, n)
    key.n += n
    return 0


cdef inline int key_tag(Key* key, char tag) except -1:
    if key.n + 1 > _KEY:
        raise invalid("the call's arguments are too many for one operator call")
    key.data[key.n] = tag
    key.n += 1
    return 0


cdef inline int key_tensor(Key* key, const TensorRecord* r) except -1:
    cdef int32_t head[3]
    head[0] = r.dtype | (r.rank << 8) | (r.scheme << 16)
    head[1] = r.layout
    head[2] = r.device
    key_bytes(key, head, 12)
    key_bytes(key, r.shape, 8 * r.rank)
    key_bytes(key, r.strides, 8 * r.rank)
    return 0


@cython.final
cdef class Op:
    """A callable operator, made from its record.

    ``op.record`` is the declaration. Calls are cached by the metadata of the tensors and the value of the static
    arguments; runtime scalars ride along.
    """

    cdef vectorcallfunc vectorcall
    cdef readonly object record
    cdef readonly str name
    cdef BindingCache cache
    cdef int n_args
    cdef int8_t kinds[_MAX_ARGS]
    cdef int8_t optional[_MAX_ARGS]
    cdef int8_t number[_MAX_ARGS]
    cdef int8_t sequence[_MAX_ARGS]
    cdef int8_t variadic[_MAX_ARGS]
    cdef int8_t ints[_MAX_ARGS]
    cdef int8_t packed[_MAX_ARGS]
    cdef bint places         # takes a device: its absence means the scope's, which is in the key
    cdef tuple args
    cdef dict positions      # keyword -> index
    cdef int n_positional    # arguments that may be given by position
    cdef tuple defaults
    cdef clika_scalar scalar_defaults[_MAX_ARGS]
    cdef int8_t scalar_kind[_MAX_ARGS]  # 0 float, 1 int, 2 either
    cdef int8_t has_scalar_default[_MAX_ARGS]

    def __cinit__(self, record):
        self.vectorcall = op_vectorcall
        self.record = record
        self.name = record.name
        self.args = record.args
        self.n_args = len(record.args)
        if self.n_args > _MAX_ARGS:
            raise invalid(f"{record.name}: more than {_MAX_ARGS} arguments")
        self.positions = {}
        self.n_positional = 0
        for i, arg in enumerate(record.args):
            self.kinds[i] = {"tensor": _TENSOR, "static": _STATIC, "scalar": _SCALAR}[arg.kind]
            self.optional[i] = arg.optional
            self.number[i] = arg.number
            self.sequence[i] = arg.sequence
            self.variadic[i] = arg.variadic
            self.ints[i] = arg.type == "ints"
            self.packed[i] = arg.packed
            self.places |= arg.type == "device"
            self.positions[arg.name] = i
            for alias in arg.aliases:
                self.positions[alias] = i
            if not arg.keyword_only:
                self.n_positional = i + 1
            self.has_scalar_default[i] = 0
            if arg.kind == "scalar":
                self.scalar_kind[i] = {"float": 0, "int": 1}.get(arg.type, 2)
                if isinstance(arg.default, (int, float)):
                    self._scalar(i, arg.default, &self.scalar_defaults[i])
                    self.has_scalar_default[i] = 1
        self.defaults = tuple([arg.default for arg in record.args])

    @property
    def __doc__(self):
        return self.record.help

    @property
    def __name__(self):
        return self.name

    @property
    def __qualname__(self):
        return self.name

    @property
    def __module__(self):
        return "clika_runtime"

    @property
    def __signature__(self):
        import inspect

        parameters = []
        for arg in self.args:
            default = inspect.Parameter.empty if arg.default is REQUIRED else arg.default
            kind = (inspect.Parameter.KEYWORD_ONLY if arg.keyword_only
                    else inspect.Parameter.POSITIONAL_OR_KEYWORD)
            parameters.append((kind, default, arg.name))
        parameters.sort(key=lambda entry: entry[0])
        seen_default = False
        made = []
        for kind, default, name in parameters:
            if default is not inspect.Parameter.empty:
                seen_default = True
            elif seen_default and kind == inspect.Parameter.POSITIONAL_OR_KEYWORD:
                kind = inspect.Parameter.KEYWORD_ONLY
            made.append(inspect.Parameter(name, kind, default=default))
        made.sort(key=lambda parameter: parameter.kind)
        return inspect.Signature(made)

    def __repr__(self):
        return f"<operator clika_runtime.{self.name}>"

    def __reduce__(self):
        return _restore_op, (self.name,)

    def cache_size(self):
        """How many signatures are cached."""
        return self.cache.size()

    # -------------------------------------------------------- binding
    cdef object _fault(self, str what):
        wanted = ", ".join(arg.name for arg in self.args)
        return TypeError(f"{self.name}: {what}; the arguments are ({wanted})")

    cdef object _call(self, PyObject* const* given, Py_ssize_t n, PyObject* kwnames):
        cdef PyObject* slots[_MAX_ARGS]
        cdef int i
        cdef Py_ssize_t k
        cdef list keep = None
        for i in range(self.n_args):
            slots[i] = NULL
        for k in range(n):
            if k >= self.n_positional:
                raise self._fault(f"takes {self.n_positional} positional arguments, got {n}")
            if self.variadic[k] and (n - k > 1 or isinstance(<object>given[k], (int, SymInt))):
                rest = tuple([<object>given[j] for j in range(k, n)])
                keep = [rest]
                slots[k] = <PyObject*>rest
                break
            slots[k] = given[k]
        if kwnames is not NULL:
            for k in range(len(<tuple>kwnames)):
                word = <object>(<tuple>kwnames)[k]
                index = self.positions.get(word)
                if index is None:
                    raise self._fault(f"unexpected keyword argument {word!r}")
                i = index
                if slots[i] is not NULL:
                    raise self._fault(f"argument {word!r} is given twice")
                slots[i] = given[n + k]
        return self._dispatch(slots, keep)

    cdef object _dispatch(self, PyObject** slots, list keep):
        cdef Key key
        cdef Frame frame
        cdef int i
        cdef int8_t kind
        cdef object value
        cdef Tensor t
        cdef double f
        cdef int64_t integer
        cdef int overflow = 0
        cdef bint traced = False
        cdef const Binding* binding
        key.n = 0
        frame.n_inputs = 0
        frame.n_groups = 0
        frame.n_scalars = 0
        _collect()
        for i in range(self.n_args):
            kind = self.kinds[i]
            if slots[i] is NULL:
                value = self.defaults[i]
                if self.has_scalar_default[i]:
                    slots[i] = <PyObject*>value
                    frame.scalars[frame.n_scalars] = self.scalar_defaults[i]
                    frame.n_scalars += 1
                    continue
                if value is REQUIRED:
                    raise self._fault(f"missing argument '{self.args[i].name}'")
                slots[i] = <PyObject*>value  # the record keeps it alive
            value = <object>slots[i]
            if kind == _TENSOR:
                if type(value) is Tensor:
                    t = <Tensor>value
                    if t.record.layout and not self.packed[i] and t.record.scheme == CLIKA_DENSE:
                        t = self._as_published(i, t)
                        keep = [t] if keep is None else [*keep, t]
                        slots[i] = <PyObject*>t
                    if t.recorder is not None:
                        traced = True
                    key_tensor(&key, &t.record)
                    if frame.n_inputs >= 64:
                        raise invalid(f"{self.name}: more than 64 tensors in one call")
                    frame.inputs[frame.n_inputs] = &t.record
                    frame.n_inputs += 1
                    frame.groups[frame.n_groups] = -1
                    frame.n_groups += 1
                    continue
                if value is None and self.optional[i]:
                    key_tag(&key, c"n")
                    frame.inputs[frame.n_inputs] = NULL
                    frame.n_inputs += 1
                    frame.groups[frame.n_groups] = -1
                    frame.n_groups += 1
                    continue
                if self.number[i] and isinstance(value, (int, float)):
                    key_tag(&key, c"w")
                    key_tag(&key, 0 if isinstance(value, bool) else 1 if isinstance(value, int) else 2)
                    frame.inputs[frame.n_inputs] = NULL
                    frame.n_inputs += 1
                    frame.groups[frame.n_groups] = -1
                    frame.n_groups += 1
                    continue
                if self.sequence[i] and isinstance(value, (list, tuple)):
                    if not self.packed[i] and _some_in_own_layout(value):
                        value = [self._as_published(i, item) for item in value]
                        keep = [value] if keep is None else [*keep, value]
                        slots[i] = <PyObject*>value
                    key_tag(&key, c"q")
                    integer = len(value)
                    key_bytes(&key, &integer, 8)
                    if frame.n_inputs + integer > 64:
                        # Later arguments may still be missing.
                        return self._in_parts(
                            [self.args[k].default if slots[k] is NULL else <object>slots[k]
                             for k in range(self.n_args)], i)
                    frame.groups[frame.n_groups] = <int32_t>integer
                    frame.n_groups += 1
                    for item in value:
                        if type(item) is not Tensor:
                            raise self._wrong(i, item)
                        t = <Tensor>item
                        if t.recorder is not None:
                            traced = True
                        key_tensor(&key, &t.record)
                        frame.inputs[frame.n_inputs] = &t.record
                        frame.n_inputs += 1
                    continue
                raise self._wrong(i, value)
            elif kind == _STATIC:
                if type(value) is int:
                    key_tag(&key, c"i")
                    integer = PyLong_AsLongLongAndOverflow(value, &overflow)
                    if overflow:
                        raise self._too_large(i, value)
                    key_bytes(&key, &integer, 8)
                elif value is None:
                    key_tag(&key, c"n")
                    if self.places and _any_scope:
                        integer = default_device()
                        key_bytes(&key, &integer, 8)
                elif value is True:
                    key_tag(&key, c"T")
                elif value is False:
                    key_tag(&key, c"F")
                elif self.ints[i] and type(value) is tuple and self._key_plain(&key, i, <tuple>value):
                    pass  # settled as it is
                else:
                    if keep is None:
                        keep = []
                    value = self._settle(i, value)
                    keep.append(value)
                    slots[i] = <PyObject*>value
                    if self._key_static(&key, value):
                        traced = True
            else:
                if value is None:
                    frame.scalars[frame.n_scalars].is_none = 1
                    frame.scalars[frame.n_scalars].is_float = 0
                    frame.scalars[frame.n_scalars].i = 0
                    frame.scalars[frame.n_scalars].f = 0
                elif type(value) is _GraphScalar:
                    traced = True
                else:
                    self._scalar(i, value, &frame.scalars[frame.n_scalars])
                frame.n_scalars += 1
        if traced or _trace_scopes and _active_tracer() is not None:
            return _trace(self, [<object>slots[i] for i in range(self.n_args)])
        binding = self.cache.find(key.data, key.n)
        if binding is NULL:
            _counts.misses += 1
            values = [<object>slots[i] for i in range(self.n_args)]
            fake = self._miss(&key, &frame, values)
            if fake is not None:
                return fake
            binding = self.cache.find(key.data, key.n)
        else:
            _counts.hits += 1
        return self._run(binding, &frame, slots)

    cdef object _as_published(self, int i, object given):
        """A dense weight in its backend's own layout for an operator that reads elements: a copy as published."""
        cdef Tensor t
        if type(given) is not Tensor:
            return given
        t = <Tensor>given
        if not t.record.layout or t.record.scheme != CLIKA_DENSE:
            return t
        if i in self._targets():
            raise invalid(f"{self.name}: {self.args[i].name} is a weight in its backend's own layout, which is not "
                          "written to; take unpack_weight() of it first")
        return unpack_weight(t) if t.recorder is None else t.recorder.published(t)

    cdef object _wrong(self, int i, object value):
        arg = self.args[i]
        hint = "; make one with clika_runtime.tensor()" if isinstance(value, (list, float, int)) else ""
        kind = "a sequence of tensors" if arg.sequence else "a tensor or a number" if arg.number else "a tensor"
        return TypeError(f"{self.name}: {arg.name} must be {kind}, got {type(value).__name__}{hint}")

    cdef object _in_parts(self, list values, int i):
        # More tensors than one call carries: join them in runs first.
        if self.name == "stack":
            dim = values[1]
            return get_op("cat")([get_op("unsqueeze")(item, dim) for item in values[i]], dim)
        if self.name != "cat":
            raise invalid(f"{self.name}: more than 64 tensors in one call")
        parts = list(values[i])
        while len(parts) > 32:
            step = []
            for k in range(0, len(parts), 32):
                values[i] = parts[k:k + 32]
                step.append(self(*values))
            parts = step
        values[i] = parts
        return self(*values)

    cdef object _too_large(self, int i, object value):
        return invalid(f"{self.name}: {self.args[i].name} = {value} does not fit 64 bits")

    cdef object _integer(self, int i, object value):
        """A static integer, within 64 bits."""
        if isinstance(value, SymInt):
            return value
        value = value.__index__()
        if not -(1 << 63) <= value < (1 << 63):
            raise self._too_large(i, value)
        return value

    cdef object _settle(self, int i, object value):
        """A static argument in the one form that rules, keys and kernels see (step 2 of the record's text)."""
        arg = self.args[i]
        kind = arg.type
        try:
            if kind == "ints":
                if isinstance(value, Tensor):
                    value = value.tolist()
                if isinstance(value, (int, SymInt)):
                    return (self._integer(i, value),)
                return tuple([self._integer(i, v) for v in value])
            if kind == "int":
                if isinstance(value, (list, tuple)) and len(value) == 1:
                    value = value[0]
                return self._integer(i, value)
            if kind == "floats":
                return (float(value),) if isinstance(value, (int, float)) else tuple([float(v) for v in value])
            if kind == "float":
                return float(value)
            if kind == "number":
                if isinstance(value, (int, float)):
                    return value
                raise TypeError
            if kind == "bool":
                return bool(value)
            if kind == "str":
                if arg.modes:
                    arg.mode_index(value)
                elif not isinstance(value, str):
                    raise TypeError
                return value
            if kind == "dtype":
                dtype_code(value)
                return value
            if kind == "device":
                return Device(value)
        except (AttributeError, OverflowError, TypeError, ValueError) as error:
            if isinstance(error, _errors.ClikaRTError):
                raise
            raise TypeError(f"{self.name}: {arg.name} must be {kind}, got {value!r}") from None
        raise TypeError(f"{self.name}: unknown kind {kind!r} of static argument {arg.name}")

    cdef bint _key_plain(self, Key* key, int i, tuple value) except -1:
        """Adds a tuple of nothing but ints to the key, as `_key_static` does; False for another one."""
        cdef int overflow = 0
        cdef int64_t integer
        for item in value:
            if type(item) is not int:
                return False
        key_tag(key, c"t")
        integer = len(value)
        key_bytes(key, &integer, 8)
        for item in value:
            integer = PyLong_AsLongLongAndOverflow(item, &overflow)
            if overflow:
                raise self._too_large(i, value)
            key_bytes(key, &integer, 8)
        return True

    cdef bint _key_static(self, Key* key, object value) except -1:
        """Adds a settled static to the key. True when it holds a symbolic size: the call is traced."""
        cdef int64_t integer
        cdef double real
        if isinstance(value, tuple):
            key_tag(key, c"t")
            integer = len(value)
            key_bytes(key, &integer, 8)
            for item in value:
                if isinstance(item, SymInt):
                    return True
                if isinstance(item, float):
                    real = item
                    key_bytes(key, &real, 8)
                else:
                    integer = item
                    key_bytes(key, &integer, 8)
        elif isinstance(value, SymInt):
            return True
        elif isinstance(value, bool):
            key_tag(key, c"T" if value else c"F")
        elif isinstance(value, int):
            key_tag(key, c"i")
            integer = value
            key_bytes(key, &integer, 8)
        elif isinstance(value, float):
            key_tag(key, c"f")
            real = value
            key_bytes(key, &real, 8)
        elif isinstance(value, str):
            raw = utf8_name(self.name, value) if value else b""
            key_tag(key, c"s")
            integer = len(raw)
            key_bytes(key, &integer, 8)
            key_bytes(key, <char*>raw, len(raw))
        elif isinstance(value, _dtypes.dtype):
            key_tag(key, c"d")
            integer = value.code
            key_bytes(key, &integer, 8)
        else:
            key_tag(key, c"D")
            integer = device_id(value)
            key_bytes(key, &integer, 8)
        return False

    cdef int _scalar(self, int i, object value, clika_scalar* out) except -1:
        if type(value) is float and self.scalar_kind[i] != 1:
            out.is_none = 0
            out.is_float = 1
            out.f = <double>value
            out.i = <int64_t>out.f if -9e18 < out.f < 9e18 else 0
            return 0
        arg = self.args[i]
        if isinstance(value, Tensor):
            value = value.item()
        if not isinstance(value, (int, float)):
            if hasattr(value, "__index__"):
                value = value.__index__()
            elif hasattr(value, "__float__"):
                value = float(value)
            else:
                raise TypeError(f"{self.name}: {arg.name} must be {arg.type}, got {value!r}")
        if arg.type == "int" and isinstance(value, float):
            raise TypeError(f"{self.name}: {arg.name} must be int, got {value!r}")
        out.is_none = 0
        out.is_float = isinstance(value, float) or arg.type == "float"
        try:
            out.f = value
            if out.is_float:
                out.i = <int64_t>out.f if -9e18 < out.f < 9e18 else 0
            else:
                out.i = value
        except OverflowError:
            raise invalid(f"{self.name}: {arg.name} = {value} does not fit 64 bits") from None
        return 0

    # -------------------------------------------------------- a miss
    cdef object _metas(self, list values):
        """The arguments as shape rules see them, and the tensors among them."""
        metas = []
        tensors = []
        for i in range(self.n_args):
            value = values[i]
            if self.kinds[i] == _SCALAR:
                metas.append(None)
            elif self.kinds[i] == _STATIC:
                if value is None and self.args[i].required:
                    raise TypeError(f"{self.name}: {self.args[i].name} must be {self.args[i].type}, got None")
                # A bool is not taken for a dtype, a device or a mode.
                metas.append(self._settle(i, value) if value is not None
                             and (type(value) is not bool or self.args[i].type not in ("bool", "int", "number"))
                             and not isinstance(value, tuple) or self.args[i].type == "ints"
                             and value is not None else value)
            elif value is None:
                metas.append(None)
            elif isinstance(value, Tensor):
                metas.append(_meta_of(<Tensor>value))
                tensors.append(value)
            elif isinstance(value, (list, tuple)):
                metas.append([_meta_of(<Tensor>item) for item in value])
                tensors.extend(value)
            else:
                code = 1 if isinstance(value, bool) else 7 if isinstance(value, int) else 17
                metas.append(Meta((), _DTYPES[code], None, weak=True))
        return metas, tensors

    cdef object _miss(self, Key* key, Frame* frame, list values):
        """Runs the rules and stores what the call resolves to. Gives fake tensors back for fake inputs."""
        record = self.record
        metas, tensors = self._metas(values)
        cdef int32_t device = self._device(metas, tensors)
        results = record.infer(*metas)
        single = not isinstance(results, (tuple, list))
        outputs = (results,) if single else tuple(results)
        if record.mutates:
            self._check_targets(values)
        cdef Binding* made = new Binding()
        cdef unique_ptr[Binding] owner
        owner.reset(made)
        made.key.assign(<const char*>key.data, key.n)
        cdef size_t n = frame.n_inputs
        cdef size_t i, slot
        cdef OutputPlan plan
        made.enter.assign(n, 0)
        made.straighten.assign(n, 0)
        made.numbers.assign(n, 0)
        made.attrs = make_shared[Attrs]()
        made.kernel = NULL
        made.python_kernel = NULL
        made.prepare = False
        made.composed = False
        made.settles = False
        made.work = 0
        made.device = device

        flat = []  # one Meta (or None) per flattened tensor input
        for i in range(<size_t>self.n_args):
            if self.kinds[i] == _TENSOR:
                if isinstance(metas[i], list):
                    flat.extend(metas[i])
                else:
                    flat.append(metas[i])
        promoted = record.promote(*metas) if record.promote is not None else None
        entering = self._entering(metas, promoted)
        for i in range(n):
            meta = flat[i]
            if meta is None:
                continue
            wanted = entering[i]
            if meta.weak:
                made.numbers[i] = (wanted or meta.dtype).code
            elif wanted is not None and wanted.code != meta.dtype.code and meta.scheme == 0:
                made.enter[i] = wanted.code
                made.prepare = True

        views = [isinstance(result, View) for result in outputs]
        if device == -1 or any(_is_fake(t) for t in tensors):
            if record.mutates:
                self._check_fake_write(values)
            self._check_sizes(outputs, "a tensor on device meta has none")
            return _fakes(outputs, single, tensors)
        for index, result in enumerate(outputs):
            plan = _output_plan(record, index, result, frame, device)
            if plan.kind == OutputKind.kNew:
                made.work += plan.nbytes
            elif plan.kind == OutputKind.kSettled:
                made.settles = True
            made.outputs.push_back(plan)
        for i in range(n):
            if frame.inputs[i] is not NULL:
                if frame.inputs[i].scheme != CLIKA_DENSE or frame.inputs[i].layout != 0:
                    made.work += frame.inputs[i].storage.nbytes() - frame.inputs[i].offset
                else:
                    made.work += dense_bytes(frame.inputs[i].rank, frame.inputs[i].shape, frame.inputs[i].dtype)
        if all(views) and outputs:
            self.cache.insert(move_binding(owner))
            return None
        if "view" in record.traits:
            made.composed = True  # the bytes cannot be shared: the composed form copies
            self.cache.insert(move_binding(owner))
            return None
        self._pack(made.attrs.get(), values)
        self._bind_kernel(made, frame, flat, entering, device)
        self.cache.insert(move_binding(owner))
        return None

    cdef list _targets(self):
        """Which arguments the operator writes to."""
        tensors = [i for i in range(self.n_args) if self.kinds[i] == _TENSOR]
        return [tensors[index] for index in self.record.written]

    cdef int _check_targets(self, list values) except -1:
        """Refuses a write to a tensor that shows one element at several places, as `expand` makes it."""
        for index in self._targets():
            self._check_target(values[index])
        return 0

    cdef int _check_target(self, Tensor target) except -1:
        cdef int32_t d
        sizes = target._sizes()
        if 0 in sizes:
            return 0
        for d in range(target.record.rank):
            size = sizes[d]
            if target.record.strides[d] == 0 and (size.bounds()[1] if isinstance(size, SymInt) else size) > 1:
                raise invalid(f"{self.name}: more than one element of the written tensor of shape "
                              f"{[*sizes]} refers to a single memory location (its stride at dim {d} is 0, as "
                              "expand() leaves it); clone() it before the write")
        return 0

    cdef int _check_fake_write(self, list values) except -1:
        """A call without bytes writes nothing: right where the target is fake too, else a lost write."""
        for target in self._targets():
            if not _is_fake(values[target]):
                raise invalid(f"{self.name}: {self.args[target].name} has bytes to write and another input is on "
                              "device meta, which has none to give; move both to one device")
        return 0

    cdef int _check_sizes(self, tuple outputs, str why) except -1:
        """Refuses a call whose result's shape depends on data where there is no data to look at."""
        for result in outputs:
            if _settles(result):
                raise _errors.UnsupportedError(
                    f"{self.name}: the shape of the result depends on the values of the input, and {why}",
                    "NOT_IMPLEMENTED_FOR_PARAM")
        return 0

    cdef list _entering(self, list metas, object promoted):
        """Per flattened tensor input: the dtype it enters the kernel in, or None."""
        entering = []
        slot = 0
        for i in range(self.n_args):
            if self.kinds[i] != _TENSOR:
                continue
            wanted = promoted[slot] if isinstance(promoted, tuple) else promoted
            entering.extend([wanted] * (len(metas[i]) if isinstance(metas[i], list) else 1))
            slot += 1
        return entering

    cdef int32_t _device(self, list metas, list tensors) except -2:
        cdef int32_t device = -3
        cdef Tensor t
        for item in tensors:
            t = <Tensor>item
            if device == -3:
                device = t.record.device
            elif t.record.device != device:
                if device == -1 or t.record.device == -1:
                    device = -1
                    continue
                raise invalid(
                    f"{self.name}: inputs are on different devices ({device_object(device)} and {t.device}); "
                    "move them to one with .to(device)")
        if device != -3:
            return device
        for i in range(self.n_args):
            if self.kinds[i] == _STATIC and self.args[i].type == "device" and metas[i] is not None:
                return device_id(metas[i])
        return default_device()

    cdef int _pack(self, Attrs* attrs, list values) except -1:
        cdef vector[int64_t] integers
        cdef vector[double] reals
        for i in range(self.n_args):
            if self.kinds[i] != _STATIC:
                continue
            arg = self.args[i]
            value = values[i]
            if arg.type == "str" and arg.modes:
                attrs.add_int(arg.mode_index(value))
            elif value is None or arg.type == "device":
                attrs.add_none()
            else:
                value = self._settle(i, value)
                if arg.type == "ints":
                    integers.clear()
                    for item in value:
                        integers.push_back((<SymInt>item).size if isinstance(item, SymInt) else item)
                    attrs.add_ints(integers)
                elif arg.type == "floats":
                    reals.clear()
                    for item in value:
                        reals.push_back(item)
                    attrs.add_floats(reals)
                elif arg.type == "str":
                    attrs.add_text(utf8_name(self.name, value) if value else b"")
                elif arg.type == "dtype":
                    attrs.add_int(value.code)
                elif arg.type == "float" or isinstance(value, float):
                    attrs.add_float(value)
                else:
                    attrs.add_int((<SymInt>value).size if isinstance(value, SymInt) else int(value))
        return 0

    cdef object _kernel_for(self, Binding* made, list metas, list groups, list entering, list outputs,
                            int32_t device):
        """Finds the backend's kernel: True, or the reason why there is none. ``metas`` are flattened."""
        if len(metas) > 64:
            return "a kernel takes at most 64 tensors"
        if len(outputs) > 8:
            return "a kernel gives at most 8 results"
        cdef clika_value items[64]
        cdef clika_value inputs[16]
        cdef clika_value results[8]
        cdef size_t slot = 0
        cdef Py_ssize_t g, k
        cdef string why
        cdef int32_t backend = device >> 8
        if device == 0:
            backend = ensure_backend("cpu")
        if backend in _PYTHON_BACKENDS and backend_by_id(backend).table is NULL:
            # Looked up once and kept: a mapping may make a fresh callable for every question.
            kernel = _PYTHON_KERNELS.get((backend, self.name))
            if kernel is None:
                kernel = _PYTHON_BACKENDS[backend].kernels.get(self.name)
                if kernel is not None:
                    _PYTHON_KERNELS[backend, self.name] = kernel
            if kernel is None:
                return f"backend '{device_object(device).type}' has no kernel of this operator"
            if not _python_serves(kernel, metas, entering, outputs):
                return f"no kernel of backend '{device_object(device).type}' serves these dtypes and schemes"
            made.python_kernel = <void*>kernel
            return True
        for k in range(len(metas)):
            items[k].kind = CLIKA_NONE
            items[k].scheme = 0
            items[k].layout = 0
            meta = metas[k]
            if meta is not None:
                items[k].kind = CLIKA_TENSOR
                items[k].dtype = (entering[k] or meta.dtype).code if meta.scheme == 0 else meta.dtype.code
                items[k].rank = len(meta.shape)
                items[k].scheme = meta.scheme
                items[k].layout = meta.layout
        for g in range(len(groups)):
            if groups[g] < 0:
                inputs[g] = items[slot]
                slot += 1
            else:
                inputs[g].kind = CLIKA_SEQUENCE
                inputs[g].n_items = groups[g]
                inputs[g].items = &items[slot]
                slot += <size_t>groups[g]
        for k in range(len(outputs)):
            results[k].kind = CLIKA_TENSOR
            results[k].scheme = 0
            results[k].layout = 0
            results[k].dtype = outputs[k].dtype.code
            results[k].rank = len(outputs[k].shape)
        made.kernel = choose_kernel(backend_by_id(backend)[0], self.name.encode(), inputs, len(groups), results,
                                    len(outputs), &why)
        return True if made.kernel is not NULL else why.decode()

    cdef int _bind_kernel(self, Binding* made, Frame* frame, list flat, list entering, int32_t device) except -1:
        cdef size_t i
        groups = [frame.groups[i] for i in range(frame.n_groups)]
        outputs = []
        for i in range(made.outputs.size()):
            outputs.append(Meta((None,) * made.outputs[i].record.rank, _DTYPES[made.outputs[i].record.dtype]))
        found = self._kernel_for(made, flat, groups, entering, outputs, device)
        if found is not True:
            if self.record.compose is None:
                raise self._no_kernel(flat, device, found)
            made.composed = True
            made.prepare = False
            return 0
        if made.kernel is not NULL and not (made.kernel.flags & CLIKA_STRIDED):
            for i in range(frame.n_inputs):
                if frame.inputs[i] is not NULL and not frame.inputs[i].contiguous():
                    if i in self.record.written:
                        continue
                    made.straighten[i] = 1
                    made.prepare = True
        return 0

    cdef object _no_kernel(self, list flat, int32_t device, str why):
        given = ", ".join(meta.dtype.name for meta in flat if meta is not None)
        return _errors.UnsupportedError(
            f"{self.name}: not served on {device_object(device)} for ({given}): {why}",
            "NOT_IMPLEMENTED_FOR_DTYPE" if "serves these" in why else "NOT_IMPLEMENTED")

    # -------------------------------------------------------- a hit
    cdef object _run(self, const Binding* binding, Frame* frame, PyObject** slots):
        cdef TensorRecord outputs[8]
        cdef ErrorPtr error
        cdef size_t i, n_outputs = binding.outputs.size()
        cdef list held = None
        cdef Tensor t
        cdef bint sync
        if binding.composed:
            values = [<object>slots[i] for i in range(<size_t>self.n_args)]
            return self.record.compose(*values)
        if n_outputs > 8:
            raise invalid(f"{self.name}: more than 8 results")
        if n_outputs and binding.kernel is NULL and binding.python_kernel is NULL:
            return self._view(binding, frame, slots)
        for i in range(frame.n_inputs):
            if binding.numbers[i]:
                self._number(i, slots, binding.numbers[i], frame.numbers[i])
        if binding.prepare:
            held = []
            for i in range(frame.n_inputs):
                if not (binding.enter[i] or binding.straighten[i]):
                    continue
                t = self._input_tensor(i, slots)
                if binding.enter[i]:
                    t = get_op("cast")(t, _DTYPES[binding.enter[i]])
                if binding.straighten[i]:
                    t = t.contiguous()
                held.append(t)
                frame.inputs[i] = &t.record
        if binding.python_kernel is not NULL:
            return _run_python(self, binding, frame, slots)
        sync = _any_scope != 0 and _scopes.synchronous != 0
        error = run_call(binding[0], frame[0], sync, outputs)
        if error.get() is not NULL:
            raise_error(error, self.name)
        if n_outputs == 1:
            if binding.outputs[0].kind == OutputKind.kMutated:
                outputs[0].storage.drop()
                return self._input_tensor(<size_t>binding.outputs[0].source, slots)
            t = Tensor.__new__(Tensor)
            t.record = outputs[0]
            if sync:
                t._wait(self.name)
            return t
        made = []
        for i in range(n_outputs):
            if binding.outputs[i].kind == OutputKind.kMutated:
                outputs[i].storage.drop()
                made.append(self._input_tensor(<size_t>binding.outputs[i].source, slots))
                continue
            t = Tensor.__new__(Tensor)
            t.record = outputs[i]
            made.append(t)
        return tuple(made)

    cdef Tensor _input_tensor(self, size_t flat, PyObject** slots):
        """The tensor object behind a flattened input."""
        cdef size_t seen = 0
        cdef int i
        for i in range(self.n_args):
            if self.kinds[i] != _TENSOR:
                continue
            value = <object>slots[i]
            if isinstance(value, (list, tuple)):
                if flat < seen + <size_t>len(value):
                    return value[flat - seen]
                seen += <size_t>len(value)
            else:
                if flat == seen:
                    return value
                seen += 1
        raise _errors.InternalError(f"{self.name}: input {flat} is out of range")

    cdef int _number(self, size_t flat, PyObject** slots, int32_t dtype, char* out) except -1:
        cdef size_t seen = 0
        cdef int i
        cdef int64_t integer = 0
        cdef double real = 0
        cdef bint fits, is_float
        for i in range(self.n_args):
            if self.kinds[i] != _TENSOR:
                continue
            value = <object>slots[i]
            if isinstance(value, (list, tuple)):
                seen += <size_t>len(value)
                continue
            if seen == flat:
                is_float = isinstance(value, float)
                try:
                    if is_float:
                        real = value
                    else:
                        integer = value
                except OverflowError:
                    raise invalid(f"{self.name}: {self.args[i].name} = {value} does not fit 64 bits") from None
                if dtype == CLIKA_BOOL or 15 <= dtype <= 18 or not is_float:
                    fits = store_number(out, dtype, is_float, real, integer)
                else:
                    fits = store_number(out, dtype, False, 0, <int64_t>real)
                if not fits:
                    raise invalid(f"{self.name}: {self.args[i].name} = {value} does not fit "
                                  f"{_DTYPES[dtype].name}")
                return 0
            seen += 1
        raise _errors.InternalError(f"{self.name}: number {flat} is out of range")

    cdef object _view(self, const Binding* binding, Frame* frame, PyObject** slots):
        cdef Tensor source, result
        cdef size_t i
        cdef int32_t d
        made = []
        for i in range(binding.outputs.size()):
            source = self._input_tensor(<size_t>binding.outputs[i].source, slots)
            result = _alias(source)
            result.record.rank = binding.outputs[i].record.rank
            for d in range(result.record.rank):
                result.record.shape[d] = binding.outputs[i].record.shape[d]
                result.record.strides[d] = binding.outputs[i].record.strides[d]
            result.record.offset += binding.outputs[i].offset * dtype_bits(result.record.dtype) // 8
            made.append(result)
        return made[0] if len(made) == 1 else tuple(made)


cdef extern from *:
    """
    #include <memory>
    #define CLIKA_MOVE(x) std::move(x)
    """
    unique_ptr[Binding] move_binding "CLIKA_MOVE"(unique_ptr[Binding]&)


cdef PyObject* op_vectorcall(PyObject* callable, PyObject* const* args, size_t nargsf, PyObject* kwnames) except NULL:
    result = (<Op>callable)._call(args, PyVectorcall_NARGS(nargsf), kwnames)
    Py_INCREF(result)
    return <PyObject*>result


cdef void _install_vectorcall():
    # Cython has no declaration for vectorcall; the slot is a pointer in the instance at this offset.
    cdef Op probe = Op.__new__(Op, _Empty)
    cdef PyTypeObject* type_object = <PyTypeObject*>Op
    type_object.tp_vectorcall_offset = <char*>&probe.vectorcall - <char*><void*>probe
    type_object.tp_flags |= Py_TPFLAGS_HAVE_VECTORCALL
    type_object.tp_call = &PyVectorcall_Call
    PyType_Modified(type_object)


class _Empty:
    name = ""
    args = ()
    summary = ""
    doc = ""


_install_vectorcall()


def _restore_op(str name):
    return get_op(name)


cdef object _meta_of(Tensor t):
    return Meta(t._sizes(), _DTYPES[t.record.dtype], _DEVICE_OF_ID[t.record.device], t.record.scheme,
                t.record.layout, t._steps())


cdef bint _some_in_own_layout(object tensors):
    for item in tensors:
        if type(item) is Tensor and (<Tensor>item).record.layout and (<Tensor>item).record.scheme == CLIKA_DENSE:
            return True
    return False


cdef bint _is_fake(object t):
    return (<Tensor>t).record.storage is NULL and (<Tensor>t).recorder is None


cdef object _fakes(tuple outputs, bint single, list tensors):
    cdef Tensor made
    result = []
    for output in outputs:
        made = Tensor.__new__(Tensor)
        if isinstance(output, View):
            made.record = (<Tensor>tensors[output.source]).record
            made.record.storage = NULL
            _set_shape(&made.record, output.shape, "meta")
            for i, step in enumerate(output.strides):
                made.record.strides[i] = step
        else:
            _set_shape(&made.record, output.shape, "meta")
            made.record.dtype = output.dtype.code
        made.record.device = -1
        result.append(made)
    return result[0] if single else tuple(result)


cdef bint _settles(object result) except -1:
    """Whether the shape of a result is known only when its kernel has looked at the data."""
    for size in result.shape:
        if size is None:
            return True
    return False


cdef OutputPlan _output_plan(object record, size_t index, object result, Frame* frame, int32_t device) except *:
    cdef OutputPlan plan
    cdef int32_t d
    plan.offset = 0
    plan.source = 0
    plan.nbytes = 0
    plan.kind = OutputKind.kNew
    if isinstance(result, View):
        _check_view(result.shape, record.name)
        plan.kind = OutputKind.kView
        plan.source = result.source
        plan.offset = result.offset
        plan.record.rank = len(result.shape)
        plan.record.dtype = frame.inputs[plan.source].dtype
        for d in range(plan.record.rank):
            plan.record.shape[d] = result.shape[d]
            plan.record.strides[d] = result.strides[d]
        return plan
    plan.record.dtype = result.dtype.code
    plan.record.device = device
    if _settles(result):
        _check_view(result.shape, record.name)
        plan.kind = OutputKind.kSettled
        plan.record.rank = len(result.shape)
        for d in range(plan.record.rank):
            plan.record.shape[d] = -1 if result.shape[d] is None else result.shape[d]
        return plan
    _set_shape(&plan.record, result.shape, record.name)
    plan.nbytes = dense_bytes(plan.record.rank, plan.record.shape, plan.record.dtype)
    target = record.target(index)
    if target is not None:
        plan.kind = OutputKind.kMutated
        plan.source = target
    return plan


# ---------------------------------------------------------------- Python kernels
cdef bint _python_serves(object kernel, list metas, list entering, list outputs) except -1:
    """Whether a call stays inside the ``dtypes`` and ``schemes`` that a Python kernel states."""
    dtypes = getattr(kernel, "dtypes", None)
    schemes = getattr(kernel, "schemes", None)
    for meta, wanted in zip(metas, entering):
        if meta is None:
            continue
        if meta.scheme:
            if schemes is not None and meta.scheme not in schemes:
                return False
        elif dtypes is not None and (wanted or meta.dtype).name not in dtypes:
            return False
    return dtypes is None or all([meta.dtype.name in dtypes for meta in outputs])


class PackedArray:
    """A packed weight as a pure-Python kernel gets it: ``payload`` (uint8, the bytes as published), the logical
    ``shape`` [rows, columns] and the ``scheme`` number of ``plugin.h``."""

    __slots__ = ("payload", "scheme", "shape")

    def __init__(self, payload, shape, scheme):
        self.payload = payload
        self.shape = shape
        self.scheme = scheme


class KernelCall:
    """What a pure-Python kernel gets: the operator's name ``op``; ``inputs`` and ``outputs`` as NumPy views (None for
    an absent input, a list for a sequence, a `PackedArray` for a packed weight); ``attrs`` and ``scalars`` by name.

    NumPy has no bfloat16 and no narrow floats: they come as unsigned integers of their width. ``input_dtypes`` and
    ``output_dtypes`` say what the values are, as dtypes of the runtime in the form of ``inputs`` and ``outputs``.

    A result whose shape depends on data has None for its unknown sizes in ``output_shapes``, and is None in
    ``outputs`` until `allocate` has given it a shape."""

    __slots__ = ("attrs", "input_dtypes", "inputs", "made", "op", "output_dtypes", "output_shapes", "outputs",
                 "scalars")

    def __init__(self, op, inputs, outputs, attrs, scalars, input_dtypes, output_dtypes, output_shapes, made):
        self.op = op
        self.inputs = inputs
        self.outputs = outputs
        self.attrs = attrs
        self.scalars = scalars
        self.input_dtypes = input_dtypes
        self.output_dtypes = output_dtypes
        self.output_shapes = output_shapes
        self.made = made

    def allocate(self, i, shape):
        """Gives result ``i`` its shape and returns the array to fill."""
        cdef Tensor t
        cdef clika_value value
        rule = self.output_shapes[i]
        if all(size is not None for size in rule) or len(rule) != len(shape) or any(
                size is not None and size != given for size, given in zip(rule, shape)):
            raise _errors.InternalError(f"{self.op}: shape {list(shape)} does not fit result {i}, whose rule is "
                                        f"{list(rule)}")
        t = _new(tuple(shape), self.output_dtypes[i].code, self.made[i], self.op)
        t.record.fill(&value, t.record.data())
        self.made[i] = t
        self.outputs[i] = _array_of(&value)
        return self.outputs[i]


cdef object _array_of(const clika_value* value):
    """A NumPy view of an operand; bfloat16 and the narrow floats come as their raw unsigned integers."""
    import ctypes

    import numpy

    cdef int i
    if value.kind == CLIKA_NONE:
        return None
    if value.kind == CLIKA_SEQUENCE:
        return [_array_of(&value.items[i]) for i in range(value.n_items)]
    code = value.dtype
    if code in _FORMATS:
        dtype = numpy.dtype(_FORMATS[code])
    else:
        dtype = numpy.dtype("u2" if dtype_bits(code) == 16 else "u1")
    shape = tuple([value.shape[i] for i in range(value.rank)])
    if value.scheme or value.layout or value.strides is NULL:
        raw = (ctypes.c_char * value.nbytes).from_address(<uintptr_t>value.data)
        payload = numpy.frombuffer(raw, dtype=numpy.uint8)
        return PackedArray(payload, shape, value.scheme)
    steps = tuple([value.strides[i] * dtype.itemsize for i in range(value.rank)])
    if 0 in shape:
        return numpy.empty(shape, dtype)
    reach = sum((size - 1) * step for size, step in zip(shape, steps)) + dtype.itemsize
    raw = (ctypes.c_char * reach).from_address(<uintptr_t>value.data)
    return numpy.ndarray(shape, dtype, buffer=raw, strides=steps)


cdef object _dtype_of(const clika_value* value):
    cdef int i
    cdef int32_t code = value.dtype
    if value.kind == CLIKA_NONE:
        return None
    if value.kind == CLIKA_SEQUENCE:
        return [_dtype_of(&value.items[i]) for i in range(value.n_items)]
    return _DTYPES[code]


cdef object _python_call(object op, object kernel, const clika_call* call, list output_shapes=None, list made=None):
    """Calls a Python kernel over the operands of a call."""
    cdef uint32_t i, k
    inputs = [_array_of(&call.inputs[i]) for i in range(call.n_inputs)]
    outputs = [_array_of(&call.outputs[i]) for i in range(call.n_outputs)]
    attrs = {}
    for i, arg in enumerate(op.record.statics):
        attrs[arg.name] = _attr_value(arg, &call.attrs[i])
    scalars = {}
    for i, arg in enumerate(op.record.scalars):
        if call.scalars[i].is_none:
            scalars[arg.name] = None
        else:
            scalars[arg.name] = call.scalars[i].f if call.scalars[i].is_float else call.scalars[i].i
    input_dtypes = [_dtype_of(&call.inputs[i]) for i in range(call.n_inputs)]
    output_dtypes = [_DTYPES[call.outputs[i].dtype] for i in range(call.n_outputs)]
    if output_shapes is None:
        output_shapes = [tuple([call.outputs[i].shape[d] for d in range(call.outputs[i].rank)])
                         for i in range(call.n_outputs)]
    kernel(KernelCall(op.name, inputs, outputs, attrs, scalars, input_dtypes, output_dtypes, output_shapes, made))


cdef object _attr_value(object arg, const clika_attr* attr):
    cdef int32_t k
    if attr.kind == 0:
        return None
    if attr.kind == 1:
        if arg.type == "str":
            return arg.modes[<Py_ssize_t>attr.v.i]
        if arg.type == "dtype":
            return _DTYPES[<Py_ssize_t>attr.v.i]
        return bool(attr.v.i) if arg.type == "bool" else attr.v.i
    if attr.kind == 2:
        return attr.v.f
    if attr.kind == 3:
        return tuple([attr.v.ints[k] for k in range(attr.n)])
    if attr.kind == 4:
        return tuple([attr.v.floats[k] for k in range(attr.n)])
    return attr.v.text[:attr.n].decode()


cdef object _run_python(Op op, const Binding* binding, Frame* frame, PyObject** slots):
    """Eager call of a Python kernel: everything settled, inline, with the GIL."""
    cdef clika_value items[64]
    cdef clika_value inputs[16]
    cdef clika_value results[8]
    cdef clika_call call
    cdef size_t i, g, slot = 0
    cdef int64_t none[1]
    cdef Tensor t
    none[0] = 0
    made = []
    shapes = []
    for i in range(binding.outputs.size()):
        shapes.append(tuple([None if binding.outputs[i].record.shape[d] < 0 else binding.outputs[i].record.shape[d]
                             for d in range(binding.outputs[i].record.rank)]))
        if binding.outputs[i].kind == OutputKind.kSettled:
            results[i].kind = CLIKA_NONE
            results[i].dtype = binding.outputs[i].record.dtype
            made.append(binding.outputs[i].record.device)  # until the kernel gives it a shape
            continue
        if binding.outputs[i].kind == OutputKind.kMutated:
            t = op._input_tensor(<size_t>binding.outputs[i].source, slots)
            t._wait(op.name)
            with nogil:
                t.record.storage.wait_for_write()
        else:
            t = _new(shapes[i], binding.outputs[i].record.dtype, binding.outputs[i].record.device, op.name)
        t.record.fill(&results[i], t.record.data())
        made.append(t)
    for i in range(frame.n_inputs):
        items[i].kind = CLIKA_NONE
        if frame.inputs[i] is not NULL:
            op._input_tensor(i, slots)._wait(op.name)
            frame.inputs[i].fill(&items[i], frame.inputs[i].data())
        elif binding.numbers[i]:
            items[i].kind = CLIKA_TENSOR
            items[i].dtype = binding.numbers[i]
            items[i].data = frame.numbers[i]
            items[i].rank = 0
            items[i].shape = none
            items[i].strides = none
            items[i].scheme = 0
            items[i].layout = 0
    for g in range(frame.n_groups):
        if frame.groups[g] < 0:
            inputs[g] = items[slot]
            slot += 1
        else:
            inputs[g].kind = CLIKA_SEQUENCE
            inputs[g].n_items = frame.groups[g]
            inputs[g].items = &items[slot]
            slot += <size_t>frame.groups[g]
    call.n_inputs = <uint32_t>frame.n_groups
    call.n_outputs = <uint32_t>binding.outputs.size()
    call.n_attrs = <uint32_t>binding.attrs.get().items.size()
    call.n_scalars = <uint32_t>frame.n_scalars
    call.inputs = inputs
    call.outputs = results
    call.attrs = binding.attrs.get().items.data()
    call.scalars = frame.scalars
    _counts.kernel_calls += 1
    _python_call(op, <object>binding.python_kernel, &call, shapes, made)
    for i in range(<size_t>len(made)):
        if not isinstance(made[i], Tensor):
            raise _errors.InternalError(f"{op.name}: the kernel gave result {i} no shape")
    return made[0] if len(made) == 1 else tuple(made)


def dispatch_counters():
    """Counts of this process: dispatch ``hits``, ``misses``, ``evictions``; kernel calls, inline and queued."""
    cdef DispatchCounters* c = _counts
    return {"hits": c.hits, "misses": c.misses, "evictions": c.evictions, "kernel_calls": c.kernel_calls,
            "inline_calls": c.inline_calls, "queued_calls": c.queued_calls}
