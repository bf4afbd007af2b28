# The registry of node types.
@cython.final
cdef class Registration:
    """What the registry knows of a class."""
    cdef readonly object cls, flatten, unflatten, name, dump, load
    cdef readonly str namespace
    cdef readonly bint is_dataclass


@cython.final
cdef class Registry:
    """The registrations of one namespace. Looked up by address: a metaclass cannot interfere."""
    cdef unordered_map[TypePointer, Pointer] table  # borrowed from `owned`
    cdef dict owned

    def __cinit__(self):
        self.owned = {}

    cdef PyObject* find(self, PyTypeObject* cls) noexcept:
        found = self.table.find(cls)
        if found == self.table.end():
            return NULL
        return dereference(found).second


cdef Registry _global = Registry()
cdef dict _namespaces = {"": _global}
cdef dict _by_name = {}


cdef Registry local_registry(object namespace):
    """The registry of a namespace; None for the global one and for one that has no registration."""
    if type(namespace) is not str:
        raise TypeError(f"pytree: a namespace is a string, got {short(namespace)}")
    return <Registry>_namespaces.get(namespace) if namespace else None


cdef int check_class(str operation, object cls) except -1:
    if not isinstance(cls, type):
        raise TypeError(f"{operation}: expected a class, got an instance: {short(cls)}")
    return 0


def register(cls, flatten, unflatten, namespace, name, dump, load, bint is_dataclass):
    """Make instances of a class nodes of a namespace ("": of every namespace)."""
    cdef str operation = "register_dataclass" if is_dataclass else "register_pytree_node"
    cdef Registration entry = Registration.__new__(Registration)
    cdef Registry registry
    check_class(operation, cls)
    local_registry(namespace)
    for function, optional in ((flatten, False), (unflatten, False), (dump, True), (load, True)):
        if not (callable(function) or (optional and function is None)):
            raise TypeError(f"{operation}: expected a function for {name_of(cls)}, got {short(function)}")
    if not (name is None or type(name) is str):
        raise TypeError(f"{operation}: serialized_type_name is a string, got {short(name)}")
    if (dump is None) is not (load is None):
        raise InvalidArgumentError(
            f"{operation}: {name_of(cls)} needs both of to_dumpable_context and from_dumpable_context, or neither"
        )
    if id(cls) in BUILT_IN:
        raise InvalidArgumentError(f"{operation}: {name_of(cls)} is a built-in container, whose rules are fixed")
    if name is not None and name in _by_name:
        raise InvalidArgumentError(
            f"{operation}: serialized_type_name {name!r} belongs to {name_of((<Registration>_by_name[name]).cls)}"
        )
    registry = _namespaces.get(namespace)
    if registry is not None and registry.find(<PyTypeObject*>cls) != NULL:
        where = f" in namespace {namespace!r}" if namespace else ""
        raise InvalidArgumentError(
            f"{operation}: {name_of(cls)} is registered already{where}; unregister_pytree_node(cls) comes first"
        )
    entry.cls, entry.flatten, entry.unflatten = cls, flatten, unflatten
    entry.namespace, entry.name, entry.dump, entry.load = namespace, name, dump, load
    entry.is_dataclass = is_dataclass
    if registry is None:
        registry = _namespaces[namespace] = Registry()
    registry.owned[id(cls)] = entry
    registry.table[<PyTypeObject*>cls] = <PyObject*>entry
    if name is not None:
        _by_name[name] = entry


def unregister(cls, namespace):
    """Make instances of a class leaves again."""
    cdef Registry registry
    cdef Registration entry
    check_class("unregister_pytree_node", cls)
    local_registry(namespace)
    if id(cls) in BUILT_IN:
        raise InvalidArgumentError(f"unregister_pytree_node: {name_of(cls)} is a built-in container and stays a node")
    registry = _namespaces.get(namespace)
    if registry is None or registry.find(<PyTypeObject*>cls) == NULL:
        where = f" in namespace {namespace!r}" if namespace else ""
        raise InvalidArgumentError(f"unregister_pytree_node: {name_of(cls)} is not registered{where}")
    registry.table.erase(<PyTypeObject*>cls)
    entry = registry.owned.pop(id(cls))
    if entry.name is not None:
        del _by_name[entry.name]
    if namespace and not registry.owned:
        del _namespaces[namespace]


def is_registered(cls, namespace):
    """Whether a namespace, or else the global registry, knows a class."""
    cdef Registry local = local_registry(namespace)
    check_class("is_registered", cls)
    if id(cls) in BUILT_IN or _global.find(<PyTypeObject*>cls) != NULL:
        return True
    return local is not None and local.find(<PyTypeObject*>cls) != NULL


def registration(cls, namespace):
    """The registration of a class in just this namespace, or None."""
    cdef Registry registry
    check_class("registration", cls)
    local_registry(namespace)
    registry = _namespaces.get(namespace)
    return None if registry is None else registry.owned.get(id(cls))


def registration_named(str name not None):
    """The registration with this serialized name, or None."""
    return _by_name.get(name)


def set_insertion_order(flag):
    """Flatten dicts in insertion order or by sorted key; returns what undoes it."""
    return _insertion_order.set(bool(flag))


def reset_insertion_order(token):
    """Undo a `set_insertion_order`."""
    _insertion_order.reset(token)
