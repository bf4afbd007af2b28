# Structures as values: `TreeSpec`.
cdef bint equal(Node a, Node b) except -1:
    cdef Py_ssize_t i
    if a is b:
        return True
    if a.kind != b.kind or a.arity != b.arity or a.num_leaves != b.num_leaves or a.num_nodes != b.num_nodes:
        return False
    if not same_type(a, b) or a.keys != b.keys or not (a.data is b.data or a.data == b.data):
        return False
    if a.children is None or b.children is None:
        return a.children is b.children
    for i in range(a.arity):
        if not equal(<Node>a.children[i], <Node>b.children[i]):
            return False
    return True


cdef bint same_type(Node a, Node b):
    if a.kind == CUSTOM:
        return (
            type_of(a) is type_of(b)
            and (<Registration>a.origin).namespace == (<Registration>b.origin).namespace
        )
    return a.origin is b.origin


cdef Py_hash_t hash_node(Node node) except -1:
    cdef Node child
    if node.hash == 0:
        below = None if node.children is None else tuple([hash_node(child) for child in node.children])
        keys = None if node.keys is None or node.kind == CUSTOM else tuple(node.keys)
        origin = None if node.kind == LEAF else id(type_of(node))
        node.hash = hash((<int>node.kind, node.arity, origin, keys, node.data, below)) or 1
    return node.hash


cdef bint is_prefix(Node a, Node b) except -1:
    """Whether ``a`` is the top of ``b``, with the rules of `matching_items`."""
    cdef Py_ssize_t i
    if a.kind == LEAF or a is b:
        return True
    if a.arity != b.arity:
        return False
    if a.kind == DICT or a.kind == ORDERED or a.kind == DEFAULT:
        if not (b.kind == DICT or b.kind == ORDERED or b.kind == DEFAULT):
            return False
        places = {key: i for i, key in enumerate(b.keys)}
        for i, key in enumerate(a.keys):
            place = places.get(key)
            if place is None or not is_prefix(child_of(a, i), child_of(b, place)):
                return False
        return True
    if a.kind != b.kind or not same_type(a, b):
        return False
    if a.kind == CUSTOM and not (a.data is b.data or a.data == b.data):
        return False
    for i in range(a.arity):
        if not is_prefix(child_of(a, i), child_of(b, i)):
            return False
    return True


cdef Node graft(Node node, Node inner, dict done):
    """The structure with ``inner`` in the place of each leaf; shared parts stay shared."""
    cdef Py_ssize_t i
    if node.kind == LEAF:
        return inner
    if id(node) not in done:
        done[id(node)] = finish(
            copy_node(node), node.arity,
            [graft(child_of(node, i), inner, done) for i in range(node.arity)],
        )
    return done[id(node)]


cdef int collect_paths(Node node, tuple path, list out, bint as_keys) except -1:
    cdef Py_ssize_t i
    if node.kind == LEAF:
        out.append(path)
        return 0
    entries = key_objects(node) if as_keys else key_entries(node)
    for i in range(node.arity):
        collect_paths(child_of(node, i), path + (entries[i],), out, as_keys)
    return 0


cdef str text_of(Node node):
    cdef Py_ssize_t i
    if node.kind == LEAF:
        return "*"
    if node.kind == NONE:
        return "None"
    parts = [text_of(child_of(node, i)) for i in range(node.arity)]
    if node.kind == TUPLE:
        return f"({parts[0]},)" if node.arity == 1 else f"({', '.join(parts)})"
    if node.kind == NAMED:
        return f"{name_of(node.origin)}({', '.join([f'{f}={p}' for f, p in zip(node.keys, parts)])})"
    if node.kind == LIST or node.kind == DEQUE or node.kind == CUSTOM:
        items = f"[{', '.join(parts)}]"
        if node.kind == DEQUE:
            return f"deque({items})" if node.data is None else f"deque({items}, maxlen={node.data})"
        return items if node.kind == LIST else f"CustomTreeNode({name_of(type_of(node))}[{node.data!r}], {items})"
    items = "{" + ", ".join([f"{key!r}: {part}" for key, part in zip(node.keys, parts)]) + "}"
    if node.kind == DEFAULT:
        return f"defaultdict({node.data!r}, {items})"
    if node.kind == ORDERED:
        return f"OrderedDict({items})" if node.arity else "OrderedDict()"
    return items


@cython.final
cdef class TreeSpec:
    """The structure of a tree without its leaves: a value that compares and hashes by structure.

    It prints as the containers with ``*`` for each leaf. Made by ``tree_structure`` and ``tree_flatten``.
    """
    cdef Node root
    cdef readonly bint none_is_leaf

    def __cinit__(self):
        self.root = LEAF_NODE
        self.none_is_leaf = True

    def __init__(self):
        raise TypeError("TreeSpec: made by pytree.tree_structure(tree) and pytree.tree_flatten(tree)")

    @property
    def num_leaves(self):
        """The number of leaves."""
        return self.root.num_leaves

    @property
    def num_nodes(self):
        """The number of nodes, leaves included."""
        return self.root.num_nodes

    @property
    def num_children(self):
        """The number of children of the root; 0 for a leaf."""
        return self.root.arity

    @property
    def type(self):
        """The class of the root; None for a leaf."""
        return type_of(self.root)

    @property
    def context(self):
        """What the root keeps beside its children: the keys of a dict, (default_factory, keys) of a defaultdict,
        maxlen of a deque, the class of a namedtuple, the context of a registered class; else None."""
        if self.root.kind == NAMED:
            return self.root.origin
        if self.root.kind == DEFAULT:
            return self.root.data, list(self.root.keys)
        if self.root.kind == DICT or self.root.kind == ORDERED:
            return list(self.root.keys)
        return self.root.data

    def is_leaf(self):
        """Whether the whole tree is one leaf."""
        return self.root.kind == LEAF

    def entries(self):
        """What names the children of the root: keys, indices, field names or a class's own entries."""
        return key_entries(self.root)

    def paths(self):
        """The entries on the way to each leaf."""
        cdef list out = []
        collect_paths(self.root, (), out, False)
        return out

    def key_paths(self):
        """The key path of each leaf, as ``tree_flatten_with_path`` gives it."""
        cdef list out = []
        collect_paths(self.root, (), out, True)
        return out

    def children(self):
        """The structures of the children of the root."""
        cdef Py_ssize_t i
        return [make_spec(child_of(self.root, i), self.none_is_leaf) for i in range(self.root.arity)]

    def unflatten(self, leaves):
        """The tree of this structure over ``leaves``, any sequence of the right length.

        Raises:
            InvalidArgumentError: another number of leaves (a ``ValueError``).
        """
        return unflatten(self, leaves)

    def flatten_up_to(self, tree):
        """The subtrees of ``tree`` where this structure has its leaves. Dicts pair by key.

        Raises:
            InvalidArgumentError: this structure is not the top of ``tree`` (a ``ValueError``).
        """
        return match_tree("flatten_up_to", self.root, tree)

    def is_prefix(self, TreeSpec other not None):
        """Whether this structure is the top of ``other``: ``other`` may go on where this has a leaf."""
        return self.none_is_leaf == other.none_is_leaf and is_prefix(self.root, other.root)

    def compose(self, TreeSpec inner not None):
        """This structure with ``inner`` in the place of each leaf.

        Raises:
            InvalidArgumentError: the two treat None differently, or the result is too deep or too large.
        """
        if self.none_is_leaf != inner.none_is_leaf:
            raise InvalidArgumentError(
                f"compose: both specs need the same none_is_leaf, got {self.none_is_leaf} and {inner.none_is_leaf}"
            )
        if <object>self.root.num_nodes * <object>inner.root.num_nodes >= <object>PY_SSIZE_T_MAX:
            raise InvalidArgumentError(
                f"compose: {self.root.num_leaves} times {inner.root.num_leaves} leaves are too many for a spec"
            )
        return make_spec(graft(self.root, inner.root, {}), self.none_is_leaf)

    def __eq__(self, other):
        if not isinstance(other, TreeSpec):
            return NotImplemented
        return self.none_is_leaf == (<TreeSpec>other).none_is_leaf and equal(self.root, (<TreeSpec>other).root)

    def __hash__(self):
        return hash((self.none_is_leaf, hash_node(self.root)))

    def __repr__(self):
        return f"TreeSpec({text_of(self.root)}{'' if self.none_is_leaf else ', none_is_leaf=False'})"

    def __reduce__(self):
        return assemble, (self.none_is_leaf, describe(self))
