# Indexing: ``x[...]`` and ``x[...] = y`` with the rules of PyTorch.
#
# Ints, slices, ``...`` and None make a view. What is left are tensors: integer ones (a list is one) and masks, each
# of which becomes as many integer tensors as it has dims. They are one call of ``index`` or ``index_put_`` on the view.


cdef Tensor _index(Tensor source, object index):
    dims = []
    tensors = []
    view = _indexed_view(source, index, dims, tensors)
    if not tensors:
        return _alias(view) if view is source else view
    return get_op("index")(view, tensors, tuple(dims))


cdef int _assign(Tensor target, object index, object value) except -1:
    dims = []
    tensors = []
    view = _indexed_view(target, index, dims, tensors)
    if not isinstance(value, (Tensor, int, float)):
        value = tensor(value, dtype=target.dtype)
    if isinstance(value, Tensor):
        while (<Tensor>value).record.rank and (tensors or (<Tensor>value).record.rank > view.record.rank) and (
                (<Tensor>value)._sizes()[0] == 1):
            value = get_op("select")(value, 0, 0)  # leading dims of size 1 say nothing
        if (<Tensor>value).record.storage is not NULL and (<Tensor>value).record.storage is target.record.storage:
            value = value.clone()  # what is written must not change what is still to be read
    if tensors:
        get_op("index_put_")(view, tensors, value, tuple(dims))
    else:
        get_op("copy_")(view, value)
    return 0


cdef Tensor _indexed_view(Tensor source, object index, list dims, list tensors):
    """The view that the ints, slices and None of an index make; ``dims`` and ``tensors`` get the rest of it."""
    if source.record.scheme != CLIKA_DENSE:
        raise invalid("indexing: a packed weight cannot be indexed; use embedding() to gather rows")
    items = [_index_item(item) for item in (index if isinstance(index, tuple) else (index,))]
    used = sum([_dims_used(item) for item in items])
    if used > source.record.rank:
        raise invalid(f"indexing: {used} indices for a tensor of rank {source.record.rank}")
    cdef Tensor view = source
    cdef int32_t dim = 0
    cdef bint seen = False
    for item in items:
        if item is Ellipsis:
            if seen:
                raise invalid("indexing: more than one ellipsis")
            seen = True
            dim += source.record.rank - used
        elif item is None:
            view = get_op("unsqueeze")(view, dim)
            dim += 1
        elif isinstance(item, slice):
            view = _sliced(view, dim, item)
            dim += 1
        elif isinstance(item, bool):
            # As a mask over a new dim of size 1.
            view = get_op("unsqueeze")(view, dim)
            dims.append(dim)
            tensors.append(tensor([0] if item else [], dtype=_dtypes.int64, device=source.device))
            dim += 1
        elif isinstance(item, Tensor):
            dim = _by_tensor(view, dim, item, dims, tensors)
        else:
            view = get_op("select")(view, dim, item)
    return view


cdef object _index_item(object item):
    """One part of an index: an int, a bool, a slice, Ellipsis, None, or a tensor of integers or bools."""
    if item is None or item is Ellipsis or isinstance(item, (bool, int, slice, SymInt)):
        return item
    if isinstance(item, (list, range)) or (not isinstance(item, Tensor) and hasattr(item, "__array__")
                                           and getattr(item, "ndim", 0)):
        item = tensor(list(item) if isinstance(item, range) else item)
        if item.numel() == 0:
            item = item.to(_dtypes.int64)
    if isinstance(item, Tensor):
        if (<Tensor>item).record.dtype == CLIKA_BOOL:
            return item if (<Tensor>item).record.rank else bool(item)
        if item.dtype.kind not in "iu":
            raise TypeError(f"indexing: an index must have an integer dtype or bool, got {item.dtype.name}")
        if (<Tensor>item).record.rank == 0 and (<Tensor>item).recorder is None:
            return item.item()
        return item
    if type(item).__name__ == "bool_" or type(item).__name__ == "bool":  # NumPy's
        return bool(item)
    try:
        return item.__index__()
    except AttributeError:
        raise TypeError(f"indexing: {item!r} is no index; expected ints, slices, ..., None, or tensors or lists of "
                        "integers or bools") from None


cdef int32_t _dims_used(object item) except -1:
    """How many dims of the tensor a part of an index stands for."""
    if item is None or item is Ellipsis or isinstance(item, bool):
        return 0
    if isinstance(item, Tensor) and (<Tensor>item).record.dtype == CLIKA_BOOL:
        return (<Tensor>item).record.rank
    return 1


cdef int32_t _by_tensor(Tensor view, int32_t dim, Tensor item, list dims, list tensors) except -1:
    """Adds a tensor of an index; returns the dim after those it stands for."""
    if item.record.dtype != CLIKA_BOOL:
        if item.record.dtype != CLIKA_INT64 and item.record.dtype != 6:
            item = item.to(_dtypes.int64)
        dims.append(dim)
        tensors.append(item if item.record.device == view.record.device else item.to(view.device))
        return dim + 1
    sizes = view._sizes()[dim:dim + item.record.rank]
    if item._sizes() != sizes:
        raise invalid(f"indexing: a mask of shape {list(item._sizes())} must have the sizes {list(sizes)} of the dims "
                      f"from {dim} on")
    for place in _true_places(item):
        dims.append(dim)
        tensors.append(place if view.record.device == 0 else place.to(view.device))
        dim += 1
    return dim


@cython.cdivision(True)
cdef list _true_places(Tensor mask):
    """Where a mask is true, in row-major order: one int64 tensor [n] for each of its dims."""
    if mask.recorder is not None:
        raise _errors.UnsupportedError("indexing: the size of the result depends on the values of a traced mask; use "
                                       "where()", "NOT_IMPLEMENTED_FOR_PARAM")
    cdef Tensor host = mask._readable("indexing")
    cdef const char* flags = host.record.data()
    cdef int64_t n = host.record.numel()
    cdef int64_t i, left, count = 0
    cdef int32_t d, rank = host.record.rank
    cdef int64_t* columns[8]
    with nogil:
        for i in range(n):
            count += flags[i] != 0
    places = []
    for d in range(rank):
        place = _new((count,), CLIKA_INT64, 0, "indexing")
        places.append(place)
        columns[d] = <int64_t*>(<Tensor>place).record.data()
    count = 0
    with nogil:
        for i in range(n):
            if flags[i] == 0:
                continue
            left = i
            for d in range(rank - 1, -1, -1):
                columns[d][count] = left % host.record.shape[d]
                left = left // host.record.shape[d]
            count += 1
    return places


cdef Tensor _sliced(Tensor view, int32_t dim, object item):
    size = view._sizes()[dim]
    step = 1 if item.step is None else _whole("indexing", "a step", item.step)
    if step < 1:
        raise _errors.UnsupportedError(f"indexing: a slice with step {step} is not served; use flip()",
                                       "NOT_IMPLEMENTED_FOR_PARAM")
    if item.start is None and item.stop is None and step == 1:
        return view
    if isinstance(size, int) and not isinstance(item.start, SymInt) and not isinstance(item.stop, SymInt):
        start, stop, step = item.indices(size)
        if step == 1:
            return get_op("narrow")(view, dim, start, max(0, stop - start))
        return get_op("slice")(view, dim, start, max(start, stop), step)
    start = 0 if item.start is None else item.start
    stop = size if item.stop is None else item.stop
    start = size + start if isinstance(start, int) and start < 0 else start
    stop = size + stop if isinstance(stop, int) and stop < 0 else stop
    if step == 1:
        return get_op("narrow")(view, dim, start, stop - start)
    return get_op("slice")(view, dim, start, stop, step)
