# distutils: language = c++
# cython: language_level=3, boundscheck=False, wraparound=False, freethreading_compatible=False, emit_code_comments=False
"""Numbers of decode steps that go on: the same sequences, a token further each. Between two of them nothing changes but
tokens, places and lengths, which stand in arrays that stay; one call writes them. Nothing here knows a tensor."""

from libc.stdint cimport int32_t, int64_t


cdef class Work:
    """New tokens of one sequence. With ``sampling`` the step gives the token that follows them; ``index`` is that token's
    number in the reply, ``choice`` what the request carries from one token to the next, where `Choice.needed` says that
    there is any. ``draft`` are tokens that may follow, for `Engine.verify`. ``late``: the mask of the choice is asked
    after the step, about the token that was found (`Choice.late`); for steps of one token per sequence."""

    cdef public object sequence, tokens, sampling, choice, draft
    cdef public int64_t index
    cdef public bint late

    def __init__(self, sequence, tokens, sampling=None, index=0, choice=None, draft=(), late=False):
        self.sequence = sequence
        self.tokens = tokens
        self.sampling = sampling
        self.index = index
        self.choice = choice
        self.draft = draft
        self.late = late

    def __repr__(self):
        return (f"Work(sequence={self.sequence!r}, tokens={self.tokens!r}, sampling={self.sampling!r}, "
                f"index={self.index}, choice={self.choice!r}, draft={self.draft!r}, late={self.late})")


cdef class SequenceState:
    """A sequence of a cache: the blocks it holds, its length, and ``edits``, which counts everything that happens to it
    but the one token of a decode step."""

    cdef public list blocks
    cdef public int64_t length, edits

    def __init__(self, list blocks not None, length=0):
        self.blocks = blocks
        self.length = length
        self.edits = 0


cdef class StepArrays:
    """One step's bookkeeping as host arrays (int32): what the new tokens are and where they go.

    T new tokens of B sequences: positions ``[T]``, slots ``[T]`` (block * block_size + offset), block_table ``[B, M]``,
    cu_seqlens ``[B + 1]``, kv_lens ``[B]`` (the new tokens included). The step belongs to ``sequences``, whose
    ``states`` it has moved on."""

    cdef readonly object positions, slots, block_table, cu_seqlens, kv_lens
    cdef readonly tuple sequences, states
    cdef tuple edits  # of the states after the step
    cdef int32_t[::1] at, to, behind

    def __init__(self, positions, slots, block_table, cu_seqlens, kv_lens, sequences, states):
        cdef tuple moved = tuple(states), names = tuple(sequences)
        if len(names) != len(moved):
            raise ValueError(f"StepArrays: {len(names)} sequences have {len(moved)} states")
        edits = tuple([(<SequenceState?>state).edits for state in moved])
        self.hold(positions, slots, kv_lens, len(moved))
        self.block_table = block_table
        self.cu_seqlens = cu_seqlens
        self.sequences = names
        self.states = moved
        self.edits = edits

    cdef hold(self, positions, slots, kv_lens, Py_ssize_t rows):
        # All of them or none: what is written in `move_on` is checked here alone.
        cdef int32_t[::1] at = positions, to = slots, behind = kv_lens
        if min(at.shape[0], to.shape[0], behind.shape[0]) < rows:
            raise ValueError(f"StepArrays: arrays of {rows} sequences are shorter than that")
        self.at, self.to, self.behind = at, to, behind
        self.positions, self.slots, self.kv_lens = positions, slots, kv_lens

    def lie_in(self, positions, slots, kv_lens):
        """Moves the numbers that change from step to step into other arrays of the same sizes."""
        positions[:], slots[:], kv_lens[:] = self.positions, self.slots, self.kv_lens
        self.hold(positions, slots, kv_lens, len(self.states))

    cpdef bint goes_on(self, int64_t block_size, int64_t max_tokens):
        """Whether a decode step of the same sequences may follow: each is as this one left it, with room in its last
        block, which nobody else has come to hold since."""
        cdef Py_ssize_t row
        cdef SequenceState state
        for row in range(len(self.states)):
            state = <SequenceState>self.states[row]
            if (state.edits != <int64_t>self.edits[row] or state.length % block_size == 0
                    or state.length >= max_tokens):
                return False
        return True

    cpdef move_on(self):
        """The next decode step of the same sequences: each one token further."""
        cdef Py_ssize_t row
        for row in range(len(self.states)):
            (<SequenceState>self.states[row]).length += 1
            self.at[row] += 1
            self.to[row] += 1
            self.behind[row] += 1


cdef class DecodeRows:
    """Decode steps over one set of arrays: ``tokens`` ``[B]`` int32 and ``index`` ``[B]`` int64 are what `follow` writes,
    beside the numbers of ``step``, whose sequences are drawn by ``samplings``."""

    cdef StepArrays step
    cdef tuple samplings
    cdef int64_t block_size, max_tokens
    cdef int32_t[::1] tokens
    cdef int64_t[::1] index

    def __init__(self, StepArrays step not None, samplings, tokens, index, block_size, max_tokens):
        cdef tuple drawn = tuple(samplings)
        cdef int32_t[::1] ids = tokens
        cdef int64_t[::1] numbers = index
        if not ids.shape[0] == numbers.shape[0] == len(drawn) == len(step.states):
            raise ValueError(f"DecodeRows: a step of {len(step.states)} sequences needs as many rows")
        self.step = step
        self.samplings = drawn
        self.tokens = ids
        self.index = numbers
        self.block_size = block_size
        self.max_tokens = max_tokens

    def follow(self, work) -> bool:
        """Writes the next step if it is one of the same rows, each of which has a token and nothing but that to tell; the
        sequences have grown then. False: nothing has changed but what the next step writes anyway."""
        cdef Py_ssize_t row, rows = len(self.samplings)
        cdef Work item
        cdef tuple given = tuple(work)
        if len(given) != rows or not self.step.goes_on(self.block_size, self.max_tokens):
            return False
        for row in range(rows):
            item = <Work?>given[row]
            if (item.sampling is not self.samplings[row] or item.choice is not None or item.late
                    or item.sequence != self.step.sequences[row] or len(item.tokens) != 1):
                return False
            self.tokens[row] = item.tokens[0]
            self.index[row] = item.index
        self.step.move_on()
        return True
