"""Compiled kernels on disk: made once for all processes; what is damaged is made again."""

WORK = """
from clika_runtime_cuda import _backend
x = crt.tensor([-1.0, 2.0]).to("cuda")
answer = [crt.relu(x).tolist(), _backend.counters()]
"""
RIGHT = [0.0, 2.0]


def test_second_process_compiles_nothing(fresh):
    machine = fresh()
    values, first = machine.ask(WORK)
    assert values == RIGHT
    assert first["compiled"] == 1
    assert machine.ask(WORK) == [RIGHT, {"compiled": 0, "cached": 1, "damaged": 0}]


def test_damaged_files_are_made_again(fresh):
    machine = fresh()
    machine.ask(WORK)
    (file,) = machine.cache.rglob("*.cubin")
    whole = file.read_bytes()
    for damage in (whole[:-5], whole[:20], b"", whole[:-1] + bytes([whole[-1] ^ 1]), b"x" * 100):
        file.write_bytes(damage)
        values, counts = machine.ask(WORK)
        assert values == RIGHT
        assert counts == {"compiled": 1, "cached": 0, "damaged": 1}
        assert file.read_bytes() == whole
    assert [path.suffix for path in file.parent.iterdir()] == [".cubin"]


def test_two_processes_share_a_cache(fresh):
    machine = fresh()
    both = [machine.start(WORK), machine.start(WORK)]
    assert [machine.finish(one)[0] for one in both] == [RIGHT, RIGHT]
    assert machine.ask(WORK)[1]["cached"] == 1
    assert len([path for path in machine.cache.rglob("*") if path.is_file()]) == 1


def test_architectures_and_drivers_have_files_of_their_own(fresh):
    machine = fresh()
    machine.ask(WORK)
    assert machine.ask(WORK, FAKE_CUDA_CAPABILITY="80")[1]["compiled"] == 1
    assert machine.ask(WORK, FAKE_CUDA_VERSION="13010")[1]["compiled"] == 1
    # 8.9 runs the code of 8.0.
    assert machine.ask(WORK, FAKE_CUDA_CAPABILITY="89")[1] == {
        "compiled": 0,
        "cached": 1,
        "damaged": 0,
    }


def test_folder_that_cannot_be_written(fresh, tmp_path):
    machine = fresh()
    (tmp_path / "cubins").write_text("in the way")
    values, counts = machine.ask(WORK)
    assert (values, counts["compiled"]) == (RIGHT, 1)


def test_unknown_architecture(fresh):
    text = fresh().ask(
        "answer = said((crt.tensor([1.0]).to('cuda') + 1).tolist)[2]", FAKE_CUDA_CAPABILITY="110"
    )
    assert "makes no code for compute capability 11.0" in text


def test_source_that_does_not_compile(fresh):
    text = fresh().ask("answer = said((crt.tensor([1.0]).to('cuda') + 1).tolist)[2]", CXX="false")
    assert "kernel elementwise.cu does not compile" in text
    assert "CLIKA_OP=op_add" in text
