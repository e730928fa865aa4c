from __future__ import annotations

import io
import tracemalloc
import zipfile
from pathlib import Path

import numpy as np
import pytest

from byheart.data import Dataset
from byheart.errors import ConflictingLabels, MalformedFile
from byheart.files import npz_archive
from byheart.files.npz_archive import open_npz, read_npz
from byheart.process.memory_limit import OverMemoryLimit
from tests.refusal import refused


def npy(array: np.ndarray) -> bytes:
    buffer = io.BytesIO()
    np.save(buffer, array)
    return buffer.getvalue()


def write(path: Path, compress: bool = False, **entries: bytes) -> None:
    with zipfile.ZipFile(path, "w", zipfile.ZIP_DEFLATED if compress else zipfile.ZIP_STORED) as archive:
        for name, content in entries.items():
            archive.writestr(f"{name}.npy", content)


def claiming(shape: tuple[int, ...], descr: str = "<f8", payload: bytes = b"") -> bytes:
    """The bytes of an .npy whose header claims `shape`, whatever follows."""
    buffer = io.BytesIO()
    np.lib.format.write_array_header_1_0(buffer, {"descr": descr, "fortran_order": False, "shape": shape})
    return buffer.getvalue() + payload


@pytest.fixture
def path(tmp_path: Path) -> Path:
    return tmp_path / "data.npz"


LABELS = npy(np.array([0, 1]))


@pytest.mark.parametrize("save", [np.savez, np.savez_compressed])
def test_arrays_come_back(path: Path, save: type) -> None:
    values = np.random.default_rng(0).random((4, 3, 2))
    save(path, inputs=values, labels=np.array([5, -5, 5, 7], dtype=np.int16))
    data = Dataset.from_npz(path)
    assert data.label_names == ("-5", "5", "7")
    assert data.task == "next-token"
    assert not data.ordered
    assert data.digest == Dataset.from_arrays(values, [5, -5, 5, 7]).digest
    save(
        path,
        inputs=np.asfortranarray(values[:, :, 0] > 0.5).astype(np.uint8),
        labels=np.zeros((4, 3), dtype=int),
    )
    data = Dataset.read(path)
    assert data.task == "seq-to-seq"
    assert data.ordered


def test_known_label_names_keep_their_numbers(path: Path) -> None:
    np.savez(path, inputs=np.arange(3.0).reshape(3, 1, 1), labels=np.array([7, 9, 8]))
    data = Dataset.read(path, label_names=["9", "7"])
    assert data.label_names == ("9", "7", "8")
    assert data.labels.tolist() == [1, 0, 2]


def test_a_header_of_nested_brackets_is_no_lack_of_memory(path: Path) -> None:
    header = b"[" * 190 + b"s{{{{"  # Python 3.11 raises MemoryError while it parses this
    write(path, inputs=b"\x93NUMPY\x01\x00" + len(header).to_bytes(2, "little") + header, labels=LABELS)
    with refused(MalformedFile, "path"):
        Dataset.read(path)


def test_absurd_claims_are_refused_before_memory_is_taken(path: Path) -> None:
    tracemalloc.start()
    for shape in ((2**60,), (2**31, 2**31), (2**20, 2**20, 2**20), (10**9, 1, 1)):
        write(path, inputs=claiming(shape), labels=LABELS)
        with refused(MalformedFile, "path", "claimed_bytes", array="inputs", stored_bytes=0) as raised:
            Dataset.read(path)
        assert raised.value.facts["claimed_bytes"] == np.prod(shape, dtype=object) * 8
    _, peak = tracemalloc.get_traced_memory()
    tracemalloc.stop()
    assert peak < 10_000_000


def test_one_byte_is_singular(path: Path) -> None:
    write(path, inputs=claiming((1,), "|i1", b"12"), labels=LABELS)
    with refused(MalformedFile, array="inputs", claimed_bytes=1, stored_bytes=2) as raised:
        Dataset.read(path)
    assert "1 byte" in str(raised.value)
    assert "1 bytes" not in str(raised.value)


@pytest.mark.parametrize("shape", [(2**30, 0), (0, 2**40), (2**17, 0, 5)])
def test_rows_of_nothing_are_refused(path: Path, shape: tuple[int, ...]) -> None:
    """470 bytes took 22 GB."""
    write(path, inputs=claiming(shape), labels=LABELS)
    with refused(MalformedFile, "path", array="inputs", claimed_bytes=0):
        Dataset.read(path)


@pytest.mark.parametrize(("n_rows", "taken"), [(2**16, True), (2**16 + 1, False)])
def test_rows_of_nothing_are_counted(path: Path, n_rows: int, taken: bool) -> None:
    write(path, inputs=claiming((n_rows, 0)))
    if taken:
        assert read_npz(path, ["inputs"])["inputs"].shape == (n_rows, 0)
    else:
        with refused(MalformedFile, array="inputs"):
            read_npz(path, ["inputs"])


def test_the_limit_is_stated(path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    np.savez(path, inputs=np.zeros((10, 10, 10)))
    monkeypatch.setenv("BYHEART_MEMORY_LIMIT", "23K")
    with refused(OverMemoryLimit, n_bytes=24000, limit=23552):
        read_npz(path, ["inputs"])
    monkeypatch.setenv("BYHEART_MEMORY_LIMIT", "24000")
    assert read_npz(path, ["inputs"])["inputs"].size == 1_000


def test_a_bomb_in_the_directory_is_refused(path: Path) -> None:
    write(path, True, inputs=npy(np.zeros((1000, 1, 1))), labels=npy(np.zeros(1000, dtype=int)))
    content = path.read_bytes()
    # The directory claims more bytes than such a short deflate stream can hold, and the header says the same.
    claim = claiming((2**27, 1, 1))
    size = len(claim) + 2**30
    write(path, True, inputs=claim + b"\0" * 100, labels=LABELS)
    content = path.read_bytes()
    true_size = (len(claim) + 100).to_bytes(4, "little")
    path.write_bytes(content.replace(true_size, size.to_bytes(4, "little")))
    with refused(MalformedFile, "path", array="inputs", claimed_bytes=1073741824, stored_bytes=1073741824):
        Dataset.read(path)


@pytest.mark.parametrize(
    "content",
    [
        claiming((-2, -3, 1)),
        claiming((2, 1, 1), payload=b"\0" * 15),
        claiming((2, 1, 1), payload=b"\0" * 17),
        claiming((2, 1, 1), "|O", b"\x80\x04N."),
        b"\x93NUMPY\x09\x00",
        b"not an array",
        b"",
        npy(np.array([["a"], ["b"]])),
        npy(np.zeros((2, 1), dtype=[("x", "f8")])),
        npy(np.zeros((2, 1), dtype=complex)),
        npy(np.zeros((2, 1, 1), dtype="M8[s]")),
        npy(np.zeros(2)),
        npy(np.array(3.0)),
        npy(np.zeros((2, 0), dtype=int)),
        npy(np.zeros((0, 1, 1))),
        npy(np.full((2, 1), -1)),
        npy(np.full((2, 1), 2**64 - 1, dtype=np.uint64)),
    ],
)
def test_wrong_inputs_are_refused(path: Path, content: bytes) -> None:
    write(path, inputs=content, labels=LABELS)
    with refused(Exception, "path") as raised:
        Dataset.read(path)
    assert raised.value.exit_status == 4
    assert str(path) in str(raised.value)


def test_objects_made_by_numpy_are_refused(path: Path) -> None:
    np.savez(path, inputs=np.array([[1], [1, 2]], dtype=object), labels=np.array([0, 1]))
    with refused(MalformedFile, "path", array="inputs") as raised:
        Dataset.read(path)
    assert "claimed_bytes" not in raised.value.facts  # for what they are, not for their size


@pytest.mark.parametrize(
    "labels",
    [
        np.array([0.0, 1.0]),
        np.array([0, 1, 2]),
        np.zeros((2, 5), dtype=int),
        np.zeros((2, 1, 1), dtype=int),
        np.array(["a", "b"], dtype="S1"),
    ],
)
def test_wrong_labels_are_refused(path: Path, labels: np.ndarray) -> None:
    np.savez(path, inputs=np.arange(2.0).reshape(2, 1, 1), labels=labels)
    with refused(MalformedFile, "path"):
        Dataset.read(path)


def test_missing_arrays_are_named(path: Path) -> None:
    np.savez(path, x=np.zeros(1), y=np.zeros(1))
    with refused(MalformedFile, "path", "found", array="inputs"):
        Dataset.read(path)


@pytest.mark.parametrize("compress", [False, True])
def test_a_cut_or_damaged_archive_is_refused(path: Path, compress: bool) -> None:
    write(path, compress, inputs=npy(np.random.default_rng(0).random((2, 9, 9))), labels=LABELS)
    whole = path.read_bytes()
    for size in (1, 50, len(whole) // 2, len(whole) - 1):
        path.write_bytes(whole[:size])
        with refused(MalformedFile, "path"):
            Dataset.read(path)
    damaged = bytearray(whole)
    damaged[400] ^= 1
    path.write_bytes(damaged)
    with refused(MalformedFile, "path"):
        Dataset.read(path)


def test_non_finite_values_are_read_and_reported(path: Path) -> None:
    values = np.zeros((2, 1, 1))
    values[1] = np.inf
    np.savez(path, inputs=values, labels=np.array([0, 1]))
    assert Dataset.read(path).check().non_finite.tolist() == [[1, 0, 0]]


def test_conflicts_in_arrays_name_the_file(path: Path) -> None:
    np.savez(path, inputs=np.zeros((2, 1, 1)), labels=np.array([0, 1]))
    with refused(ConflictingLabels, "rows", "samples", "labels", "path", n_conflicts=1):
        Dataset.read(path)
    assert Dataset.read(path, on_conflict="first").n_samples == 1


# --- at the limits ----------------------------------------------------------------------------------------


def test_rows_are_read_one_after_the_other(path: Path) -> None:
    values = np.arange(24, dtype=np.int16).reshape(4, 3, 2)
    np.savez(path, values=values, turned=np.asfortranarray(values), one=np.array(5.0))
    with open_npz(path, ["values"]) as (array,):
        assert (array.row_items, array.memory) == (6, 24 * 2 + 2 * 8 * 24)
        assert np.array_equal(array.read_rows(1), values[:1])
        assert np.array_equal(array.read_rows(3), values[1:])
        with refused(MalformedFile, path=str(path), array="values"):
            array.read_rows(1)
    found = read_npz(path)
    assert list(found) == ["values", "turned", "one"]
    assert np.array_equal(found["turned"], values)
    assert found["one"].shape == ()
    assert all(array.flags.writeable for array in found.values())
    with refused(MalformedFile, array="missing", found=["one", "turned", "values"]):
        read_npz(path, ["missing"])


def test_an_archive_may_be_given_by_its_content(path: Path) -> None:
    np.savez(path, values=np.arange(3))
    content = io.BytesIO(path.read_bytes())
    assert read_npz(Path("elsewhere"), content=content)["values"].tolist() == [0, 1, 2]


def test_the_arrays_of_an_archive_share_the_memory_limit(path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    np.savez(path, one=np.zeros(100), two=np.zeros(100))
    monkeypatch.setenv("BYHEART_MEMORY_LIMIT", "4800")
    assert set(read_npz(path)) == {"one", "two"}
    monkeypatch.setenv("BYHEART_MEMORY_LIMIT", "4799")
    with refused(OverMemoryLimit, n_bytes=4800):
        read_npz(path)
    assert set(read_npz(path, ["one"])) == {"one"}


def test_an_archive_holds_at_most_so_many_arrays(path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    assert npz_archive.MOST_ARRAYS == 65_536
    np.savez(path, **{f"a{i}": np.zeros(1) for i in range(4)})
    monkeypatch.setattr(npz_archive, "MOST_ARRAYS", 4)
    assert len(read_npz(path)) == 4
    monkeypatch.setattr(npz_archive, "MOST_ARRAYS", 3)
    with refused(MalformedFile, path=str(path)):
        read_npz(path)


@pytest.mark.parametrize("method", [zipfile.ZIP_BZIP2, zipfile.ZIP_LZMA])
def test_other_ways_to_pack_are_refused(path: Path, method: int) -> None:
    with zipfile.ZipFile(path, "w", method) as archive:
        archive.writestr("inputs.npy", npy(np.zeros(3)))
    with refused(MalformedFile, array="inputs"):
        read_npz(path)


@pytest.mark.parametrize("version", [(1, 0), (2, 0)])
def test_both_versions_of_numpys_header_are_read(path: Path, version: tuple[int, int]) -> None:
    buffer = io.BytesIO()
    np.lib.format.write_array(buffer, np.arange(5), version)
    write(path, values=buffer.getvalue())
    assert read_npz(path)["values"].tolist() == [0, 1, 2, 3, 4]


def packed(path: Path, n_bytes: int, ratio: float, monkeypatch: pytest.MonkeyPatch) -> None:
    """An archive of zeros whose directory says that they are packed by `ratio`."""
    write(path, True, inputs=npy(np.zeros(n_bytes // 8)))
    size = zipfile.ZipFile(path).infolist()[0].file_size
    true = zipfile.ZipFile.infolist

    def infolist(self: zipfile.ZipFile) -> list[zipfile.ZipInfo]:
        found = true(self)
        for info in found:
            info.compress_size = int(size / ratio)
        return found

    monkeypatch.setattr(zipfile.ZipFile, "infolist", infolist)


@pytest.mark.parametrize(("ratio", "is_taken"), [(1099, True), (1100.5, False)])
def test_nothing_is_packed_more_densely_than_deflate_can(
    path: Path, ratio: float, is_taken: bool, monkeypatch: pytest.MonkeyPatch
) -> None:
    packed(path, 8 * 10**6, ratio, monkeypatch)
    if is_taken:
        with open_npz(path) as (array,):
            assert array.shape == (10**6,)
    else:
        with refused(MalformedFile, array="inputs", claimed_bytes=8 * 10**6), open_npz(path):
            pass


@pytest.mark.parametrize(("small", "ratio", "is_taken"), [
    (24 * 10**6, 100.5, True), (24 * 10**6 - 1, 100.5, False), (24 * 10**6 - 1, 99.5, True),
])  # fmt: skip
def test_what_is_packed_unusually_well_must_be_small(
    path: Path, small: int, ratio: float, is_taken: bool, monkeypatch: pytest.MonkeyPatch
) -> None:
    assert npz_archive._SMALL == 2**29
    monkeypatch.setattr(npz_archive, "_SMALL", small)
    packed(path, 8 * 10**6, ratio, monkeypatch)
    if is_taken:
        with open_npz(path) as (array,):
            assert array.memory == 24 * 10**6
    else:
        with refused(MalformedFile, array="inputs", n_bytes=24 * 10**6), open_npz(path):
            pass


def test_ratios_exactly_at_the_limit_are_taken(path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """With its header of 128 bytes, such an array has 100 times 80,002 bytes, or 1,100 times 8,002."""
    for n_numbers, ratio in ((1_000_009, 100), (1_100_259, 1100)):
        monkeypatch.setattr(npz_archive, "_SMALL", 0 if ratio == 100 else 2**29)
        with monkeypatch.context() as patch:
            packed(path, 8 * n_numbers, ratio, patch)
            with open_npz(path) as (array,):
                assert array.shape == (n_numbers,)


@pytest.mark.parametrize("names", [("inputs", "labels"), None])
def test_two_arrays_of_one_name_are_refused(path: Path, names: tuple[str, ...] | None) -> None:
    write(path, inputs=npy(np.array([[1, 2], [3, 4]])), labels=LABELS)
    with zipfile.ZipFile(path, "a") as archive, pytest.warns(UserWarning, match="Duplicate"):
        archive.writestr("labels.npy", npy(np.array([1, 1])))
    with refused(MalformedFile, path=str(path)):
        read_npz(path, names)
