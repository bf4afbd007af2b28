# A structure as plain values, for pickle and JSON; following a key path.
cdef int describe_into(Node node, list out) except -1:
    cdef Py_ssize_t i
    cdef Registration entry
    origin = node.origin
    if node.kind == CUSTOM:
        entry = node.origin
        origin = (entry.cls, entry.namespace)
    keys = None if node.keys is None or node.kind == NAMED else list(node.keys)
    order = None if node.order is None else list(node.order)
    out.append((KIND_NAMES[<int>node.kind], node.arity, origin, keys, order, node.data))
    for i in range(node.arity):
        describe_into(child_of(node, i), out)
    return 0


def describe(TreeSpec spec not None):
    """The nodes of a spec, parents first: (kind, number of children, origin, keys, order, data).

    ``origin`` is the class of a namedtuple and (class, namespace) of a registered class.
    """
    cdef list out = []
    describe_into(spec.root, out)
    return out


cdef object malformed(str what):
    return InvalidArgumentError(f"TreeSpec: malformed description: {what}")


cdef Node assemble_node(list items, Py_ssize_t* at, int depth):
    cdef Node node = Node.__new__(Node), child
    cdef Py_ssize_t arity
    cdef list below
    if at[0] >= len(items):
        raise malformed("a node is missing")
    item = items[at[0]]
    at[0] += 1
    if type(item) is not tuple or len(item) != 6 or item[0] not in KIND_NAMES:
        raise malformed(f"{short(item)} is no node")
    kind, count, origin, keys, order, data = item
    if type(count) is not int or not 0 <= count <= len(items):
        raise malformed(f"{short(count)} children")
    arity = count
    node.kind = <Kind><int>KIND_NAMES.index(kind)
    if node.kind == LEAF:
        if arity:
            raise malformed("a leaf with children")
        return LEAF_NODE
    if depth > MAX_DEPTH:
        raise too_deep()
    check_facts(node, arity, origin, keys, order, data)
    if node.kind == CUSTOM:
        node.origin = registration_of(origin)
    else:
        node.origin = origin
    node.keys = list(origin._fields) if node.kind == NAMED else keys
    node.order, node.data = order, data
    below = []
    for _ in range(arity):
        child = assemble_node(items, at, depth + 1)
        below.append(child)
    return finish(node, arity, below)


cdef int check_facts(Node node, Py_ssize_t arity, object origin, object keys, object order, object data) except -1:
    """What a node says of itself has to fit its kind and its number of children."""
    cdef bint mapping = node.kind == DICT or node.kind == ORDERED or node.kind == DEFAULT
    for names in (keys, order):
        if names is not None and (type(names) is not list or len(names) != arity):
            raise malformed(f"{arity} children with keys {short(names)}")
    if mapping and (keys is None or len(set(keys)) != arity or not (order is None or set(order) == set(keys))):
        raise malformed(f"the keys of a dict: {short(keys)}, in the order {short(order)}")
    if not mapping and (order is not None or (keys is not None and node.kind != CUSTOM)):
        raise malformed(f"a {KIND_NAMES[<int>node.kind]} with keys")
    if node.kind == NONE and arity:
        raise malformed("None with children")
    if node.kind == NAMED:
        if not (isinstance(origin, type) and issubclass(origin, tuple) and is_namedtuple(origin)):
            raise malformed(f"{short(origin)} is no namedtuple class")
        if len(origin._fields) != arity:
            raise malformed(f"{name_of(origin)} has {len(origin._fields)} fields, got {arity}")
    elif node.kind != CUSTOM and origin is not None:
        raise malformed(f"a {KIND_NAMES[<int>node.kind]} with a class")
    if node.kind == DEFAULT and not (data is None or callable(data)):
        raise malformed(f"the default_factory {short(data)}")
    if node.kind == DEQUE and not (data is None or (type(data) is int and arity <= data <= PY_SSIZE_T_MAX)):
        raise malformed(f"the maxlen {short(data)} of a deque of {arity}")
    if node.kind not in (DEFAULT, DEQUE, CUSTOM) and data is not None:
        raise malformed(f"a {KIND_NAMES[<int>node.kind]} with {short(data)}")
    return 0


cdef Registration registration_of(object origin):
    cdef Registry registry
    cdef PyObject* found = NULL
    if type(origin) is not tuple or len(origin) != 2 or not isinstance(origin[0], type) or type(origin[1]) is not str:
        raise malformed(f"{short(origin)} is no registered class")
    cls, namespace = origin
    registry = _namespaces.get(namespace)
    if registry is not None:
        found = registry.find(<PyTypeObject*>cls)
    if found == NULL:
        where = f" in namespace {namespace!r}" if namespace else ""
        raise InvalidArgumentError(f"TreeSpec: {name_of(cls)} is not registered{where}; register it first")
    return <Registration>found


def assemble(bint none_is_leaf, list items not None):
    """The spec that `describe` took apart."""
    cdef Py_ssize_t at = 0
    items = list(items)
    cdef Node root = assemble_node(items, &at, 1)
    if at != len(items):
        raise malformed(f"{len(items) - at} nodes too many")
    return make_spec(root, none_is_leaf)


def key_get(tree, path, namespace):
    """The subtree at a key path."""
    cdef Walk walk = new_walk(None, True, namespace)
    for key in path:
        if not isinstance(key, _Key):
            raise TypeError(f"key_get: a path is made of key entries such as SequenceKey(0), got {short(key)}")
        if kind_of(walk, tree) == CUSTOM:
            children, _, entries = custom_level(walk.found, tree)
            keys = custom_keys(walk.found, entries, len(children))
            if key in keys:
                tree = children[keys.index(key)]
                continue
        tree = key.get(tree)
    return tree
