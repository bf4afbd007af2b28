# Indexing: ``x[...]`` and ``x[...] = y`` with the rules of PyTorch.
#
# Ints, slices, ``...`` and None make a view. What is left are tensors: integer ones (a list is one) and masks, each
# of which becomes as many integer tensors as it has dims. They are one call of ``index`` or ``index_put_`` on the view.


cdef Tensor _index(Tensor source, object index):
    tensors = []
    view = _indexed_view(source, index, tensors)
    if not tensors:
        return _alias(view) if view is source else view
    dims, tensors = _integer_indices(view, tensors)
    return get_op("index")(view, tensors, dims)


cdef int _assign(Tensor target, object index, object value) except -1:
    if target.record.layout:
        raise invalid("indexing: a weight in its backend's own layout is not written to; take unpack_weight() of it "
                      "first")
    tensors = []
    view = _indexed_view(target, index, tensors)
    if not isinstance(value, (Tensor, int, float)):
        value = tensor(value, dtype=target.dtype)
    if isinstance(value, Tensor):
        while (<Tensor>value).record.rank and (tensors or (<Tensor>value).record.rank > view.record.rank) and (
                (<Tensor>value)._sizes()[0] == 1):
            value = get_op("select")(value, 0, 0)  # leading dims of size 1 say nothing
        if (<Tensor>value).record.storage is not NULL and (<Tensor>value).record.storage is target.record.storage:
            value = value.clone()  # what is written must not change what is still to be read
    if len(tensors) == 1 and (<Tensor>tensors[0][1]).record.dtype == CLIKA_BOOL and (
            not isinstance(value, Tensor) or (<Tensor>value).record.rank == 0):
        # One number under a mask: as a whole, without looking for the places.
        dim, mask = tensors[0]
        filler = get_op("full")((), value, dtype=view.dtype, device=view.device)
        for _ in range(view.record.rank - dim - (<Tensor>mask).record.rank):
            mask = get_op("unsqueeze")(mask, -1)
        value = get_op("where")(mask.to(view.device), filler, view)
        tensors = None
    if tensors:
        dims, tensors = _integer_indices(view, tensors)
        get_op("index_put_")(view, tensors, value, dims)
    else:
        get_op("copy_")(view, value)
    return 0


cdef Tensor _indexed_view(Tensor source, object index, list tensors):
    """The view that the ints, slices and None of an index make; ``tensors`` gets the rest of it as pairs of a dim of
    the view and a tensor for it, or a mask for the dims from it on."""
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
            tensors.append((dim, tensor([0] if item else [], dtype=_dtypes.int64, device=source.device)))
            dim += 1
        elif isinstance(item, Tensor):
            _check_mask(view, dim, item)
            tensors.append((dim, item))
            dim += <int32_t>_dims_used(item)
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


cdef int _check_mask(Tensor view, int32_t dim, Tensor mask) except -1:
    if mask.record.dtype == CLIKA_BOOL:
        sizes = view._sizes()[dim:dim + mask.record.rank]
        if mask._sizes() != sizes:
            raise invalid(f"indexing: a mask of shape {list(mask._sizes())} must have the sizes {list(sizes)} of the "
                          f"dims from {dim} on")
    return 0


cdef tuple _integer_indices(Tensor view, list tensors):
    """(dims, tensors) of ``index``: int64 or int32 tensors on the view's device, one a dim."""
    dims = []
    found = []
    cdef Tensor item
    for dim, one in tensors:
        item = one
        if item.record.dtype == CLIKA_BOOL:
            parts = _true_places(item)
        else:
            parts = [item if item.record.dtype in (CLIKA_INT64, 6) else item.to(_dtypes.int64)]
        for part in parts:
            dims.append(dim)
            found.append(part if (<Tensor>part).record.device == view.record.device else part.to(view.device))
            dim += 1
    return tuple(dims), found


@cython.cdivision(True)
cdef list _true_places(Tensor mask):
    """Where a mask is true, in row-major order: one int64 tensor [n] for each of its dims."""
    if mask.recorder is not None:
        raise _errors.UnsupportedError("indexing: the size of the result depends on the values of a traced mask; use "
                                       "where()", "NOT_IMPLEMENTED_FOR_PARAM")
    cdef Tensor host = mask._readable("indexing")
    cdef const char* flags = host.record.data()
    cdef int64_t n = host.record.numel()
    cdef int32_t d, last = host.record.rank - 1
    cdef int64_t width = host.record.shape[last]
    cdef int64_t i, row, left, count = 0
    cdef int64_t* columns[8]
    cdef int64_t at[8]
    with nogil:
        for i in range(n):
            count += flags[i] != 0
    places = []
    for d in range(last + 1):
        place = _new((count,), CLIKA_INT64, 0, "indexing")
        places.append(place)
        columns[d] = <int64_t*>(<Tensor>place).record.data()
    count = 0
    with nogil:
        for row in range(n // width if n else 0):
            left = row
            for d in range(last - 1, -1, -1):
                at[d] = left % host.record.shape[d]
                left = left // host.record.shape[d]
            for i in range(width):
                if flags[row * width + i]:
                    for d in range(last):
                        columns[d][count] = at[d]
                    columns[last][count] = i
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
    if step == 1:
        from ..ops._shapes import place, reach

        return get_op("narrow")(view, dim, place(size, item.start, 0), reach(size, item.start, item.stop))
    return get_op("slice")(view, dim, item.start, item.stop, step)
