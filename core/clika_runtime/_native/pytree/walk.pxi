# Nodes of a structure, and the walk over a tree that makes them.
@cython.final
@cython.freelist(64)
cdef class Node:
    cdef Kind kind
    cdef int depth             # of containers: 0 for a leaf
    cdef Py_ssize_t arity, num_leaves, num_nodes
    cdef Py_hash_t hash        # 0: not computed yet
    cdef object origin         # the class of a namedtuple, the Registration of a custom node
    cdef list keys             # keys of a mapping, fields of a namedtuple; entries of a custom node, or None
    cdef bint rebuilt          # of a dict: once at least
    cdef dict template         # of a dict: its keys in the order of insertion, if wanted
    cdef list order            # the insertion order of a dict whose keys were sorted, or None
    cdef object data           # default_factory, maxlen or context
    cdef tuple children        # None: all leaves


cdef Node LEAF_NODE = Node.__new__(Node)
LEAF_NODE.kind = LEAF
LEAF_NODE.num_leaves = LEAF_NODE.num_nodes = 1


cdef inline Node child_of(Node node, Py_ssize_t i):
    return LEAF_NODE if node.children is None else <Node>node.children[i]


cdef inline object type_of(Node node):
    if node.kind == CUSTOM:
        return (<Registration>node.origin).cls
    return node.origin if node.kind == NAMED else KIND_TYPES[<int>node.kind]


cdef Node finish(Node node, Py_ssize_t arity, list below):
    """Fill in the counts of a node; `below` are its children, None for leaves alone."""
    cdef Node child
    cdef Py_ssize_t leaves = 0, nodes = 1
    cdef int depth = 0
    cdef bint only_leaves = True
    node.arity = arity
    if below is None:
        node.num_leaves = arity
        node.num_nodes = arity + 1
        node.depth = 1
        return node
    for child in below:
        only_leaves = only_leaves and child is LEAF_NODE
        leaves += child.num_leaves
        nodes += child.num_nodes
        depth = max(depth, child.depth)
    if depth >= MAX_DEPTH:
        raise too_deep()
    node.num_leaves, node.num_nodes, node.depth = leaves, nodes, depth + 1
    node.children = None if only_leaves else tuple(below)
    return node


cdef list key_entries(Node node):
    """What names the children of a node: keys, field names, indices, a class's own entries."""
    return list(range(node.arity)) if node.keys is None else list(node.keys)


cdef list key_objects(Node node):
    """The key entries of a node as steps of a key path."""
    if node.kind == CUSTOM:
        return custom_keys(node.origin, node.keys, node.arity)
    entries = key_entries(node)
    if node.kind == NAMED:
        return [GetAttrKey(entry) for entry in entries]
    if node.keys is None:
        return [SequenceKey(entry) for entry in entries]
    return [MappingKey(entry) for entry in entries]


cdef list custom_keys(Registration entry, list entries, Py_ssize_t arity):
    if entries is None:
        return [SequenceKey(i) for i in range(arity)]
    if entry.is_dataclass:
        return [DataclassKey(name) for name in entries]
    mapping = issubclass(entry.cls, Mapping)
    keys = []
    for name in entries:
        if isinstance(name, _Key):
            keys.append(name)
        elif not mapping and type(name) is str and name.isidentifier():
            keys.append(GetAttrKey(name))
        elif not mapping and type(name) is int:
            keys.append(SequenceKey(name))
        else:
            keys.append(MappingKey(name))
    return keys


@cython.final
cdef class Walk:
    """One descent: its rules, and the leaves that it has found."""
    cdef object is_leaf
    cdef bint none_is_leaf, sort_keys
    cdef Registry local
    cdef Registration found    # of the custom node that `kind_of` has just named
    cdef list leaves
    cdef PyTypeObject* leaf_type   # neighbours are often of one type


cdef Walk new_walk(object is_leaf, bint none_is_leaf, object namespace):
    cdef Walk walk = Walk.__new__(Walk)
    if is_leaf is not None and not callable(is_leaf):
        raise TypeError(f"pytree: is_leaf is a function of a subtree, got {short(is_leaf)}")
    walk.is_leaf = is_leaf
    walk.none_is_leaf = none_is_leaf
    walk.local = local_registry(namespace)
    walk.sort_keys = get_value(_insertion_order) is False
    walk.leaves = []
    return walk


cdef bint is_namedtuple(object cls) except -1:
    fields = getattr(cls, "_fields", None)
    if type(fields) is not tuple or not (hasattr(cls, "_make") and hasattr(cls, "_asdict")):
        return False
    return all([type(field) is str for field in <tuple>fields])


cdef int kind_of(Walk walk, object value) except -1:
    cdef PyTypeObject* cls = Py_TYPE(value)
    cdef PyObject* found = NULL
    if walk.is_leaf is not None and walk.is_leaf(value):
        return LEAF
    if cls == walk.leaf_type:
        return LEAF
    if cls == &PyDict_Type:
        return DICT
    if cls == &PyList_Type:
        return LIST
    if cls == &PyTuple_Type:
        return TUPLE
    if value is None:
        return LEAF if walk.none_is_leaf else NONE
    if cls == ORDERED_TYPE:
        return ORDERED
    if cls == DEFAULT_TYPE:
        return DEFAULT
    if cls == DEQUE_TYPE:
        return DEQUE
    if walk.local is not None:
        found = walk.local.find(cls)
    if found == NULL:
        found = _global.find(cls)
    if found != NULL:
        walk.found = <Registration>found
        return CUSTOM
    if PyTuple_Check(value) and is_namedtuple(<object>cls):
        return NAMED
    walk.leaf_type = cls
    return LEAF


cdef list sorted_keys(list keys):
    try:
        return sorted(keys)
    except TypeError:
        pass
    try:
        return sorted(keys, key=lambda key: (f"{type(key).__module__}.{type(key).__qualname__}", key))
    except TypeError:
        raise InvalidArgumentError(
            f"dict_insertion_ordered(False): the keys {short(keys)} have no order among them; "
            "flatten such a dict in insertion order"
        ) from None


cdef tuple custom_level(Registration entry, object value):
    """(children, context, entries) of an instance of a registered class."""
    result = entry.flatten(value)
    cdef str who = name_of(entry.cls)
    if type(result) is not tuple or len(<tuple>result) not in (2, 3):
        raise InvalidArgumentError(
            f"pytree: the flatten function of {who} returns (children, context) or (children, context, entries), "
            f"got {short(result)}"
        )
    cdef Py_ssize_t count = len(<tuple>result)
    cdef object context = (<tuple>result)[1]
    cdef object names = (<tuple>result)[2] if count == 3 else None
    try:
        children = tuple((<tuple>result)[0])
        entries = None if names is None else list(names)
    except TypeError as error:
        raise InvalidArgumentError(
            f"pytree: the flatten function of {who} returns children and entries that can be iterated: {error}"
        ) from error
    if entries is not None and len(entries) != len(children):
        raise InvalidArgumentError(
            f"pytree: the flatten function of {who} returned {len(children)} children and {len(entries)} entries"
        )
    return children, context, entries


cdef object level(Walk walk, object value, Node node):
    """The children of a container of kind `node.kind`, whose own facts go into the node."""
    cdef list keys
    if node.kind == TUPLE or node.kind == LIST:
        return value
    if node.kind == DICT or node.kind == DEFAULT:
        if node.kind == DEFAULT:
            node.data = value.default_factory
        keys = PyDict_Keys(value)
        items = PyDict_Values(value)
        if walk.sort_keys:
            ordered = sorted_keys(keys)
            if any([a is not b for a, b in zip(keys, ordered)]):
                node.order = keys
                keys = ordered
                items = [mapping_item(value, key) for key in keys]
        node.keys = keys
        return items
    if node.kind == ORDERED:
        node.keys = list(value)
        return [mapping_item(value, key) for key in list(node.keys)]
    if node.kind == DEQUE:
        node.data = value.maxlen
        return list(value)
    if node.kind == NAMED:
        node.origin = type(value)
        node.keys = list(node.origin._fields)
        if len(<tuple>value) != len(node.keys):
            raise InvalidArgumentError(
                f"pytree: a {name_of(node.origin)} has {len(node.keys)} fields, got {len(<tuple>value)} values"
            )
        return value
    if node.kind == CUSTOM:
        node.origin = walk.found
        children, node.data, node.keys = custom_level(walk.found, value)
        return children
    return ()  # None


cdef object mapping_item(object mapping, object key):
    cdef PyObject* item = PyDict_GetItemWithError(mapping, key)
    if item == NULL:
        raise InvalidArgumentError(f"pytree: the key {short(key)} left its dict while it was flattened")
    return <object>item


cdef Node open_node(Walk walk, object value, int kind, int depth):
    """The node of a container; its leaves are appended to those of the walk."""
    cdef Node node = Node.__new__(Node), child
    cdef list below = None
    cdef Py_ssize_t i, count
    if depth > MAX_DEPTH:
        raise too_deep()
    node.kind = <Kind>kind
    items = level(walk, value, node)
    count = PySequence_Fast_GET_SIZE(items)
    for i in range(count):
        # A list may shrink under the caller's own functions.
        if PySequence_Fast_GET_SIZE(items) != count:
            break
        item = <object>PySequence_Fast_GET_ITEM(items, i)
        kind = kind_of(walk, item)
        if kind == LEAF:
            PyList_Append(walk.leaves, item)
            if below is not None:
                PyList_Append(below, LEAF_NODE)
            continue
        child = open_node(walk, item, kind, depth + 1)
        if below is None:
            below = [LEAF_NODE] * i
        PyList_Append(below, child)
    if PySequence_Fast_GET_SIZE(items) != count:
        raise InvalidArgumentError("pytree: a list changed its length while it was flattened")
    return finish(node, count, below)


cdef Node descend(Walk walk, object tree):
    cdef int kind = kind_of(walk, tree)
    if kind == LEAF:
        walk.leaves.append(tree)
        return LEAF_NODE
    return open_node(walk, tree, kind, 1)


cdef TreeSpec make_spec(Node root, bint none_is_leaf):
    cdef TreeSpec spec = TreeSpec.__new__(TreeSpec)
    spec.root = root
    spec.none_is_leaf = none_is_leaf
    return spec


def flatten(tree, is_leaf, bint none_is_leaf, namespace):
    """(leaves, spec) of a tree."""
    cdef Walk walk = new_walk(is_leaf, none_is_leaf, namespace)
    cdef Node root = descend(walk, tree)
    return walk.leaves, make_spec(root, none_is_leaf)


def flatten_with_path(tree, is_leaf, bint none_is_leaf, namespace):
    """(pairs of key path and leaf, spec) of a tree."""
    cdef Walk walk = new_walk(is_leaf, none_is_leaf, namespace)
    cdef Node root = descend(walk, tree)
    cdef list paths = []
    collect_paths(root, (), paths, True)
    return list(zip(paths, walk.leaves)), make_spec(root, none_is_leaf)


@cython.final
cdef class LeafIterator:
    """The leaves of a tree, one by one; a container is opened when the iteration reaches it."""
    cdef Walk walk
    cdef list stack

    def __init__(self, tree, is_leaf, bint none_is_leaf, namespace):
        self.walk = new_walk(is_leaf, none_is_leaf, namespace)
        self.stack = [iter((tree,))]

    def __iter__(self):
        return self

    def __next__(self):
        cdef Node node
        cdef int kind
        while self.stack:
            for value in self.stack[len(self.stack) - 1]:
                break
            else:
                if self.stack:
                    self.stack.pop()
                continue
            kind = kind_of(self.walk, value)
            if kind == LEAF:
                return value
            if len(self.stack) > MAX_DEPTH:
                raise too_deep()
            node = Node.__new__(Node)
            node.kind = <Kind>kind
            self.stack.append(iter(level(self.walk, value, node)))
        raise StopIteration
