"""Tiny files in the publishers' formats, a local HTTP server, and the full data where someone has it."""

import gzip
import os
import threading
from collections.abc import Iterator
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path

import numpy as np
import pytest
from data_files import Site, idx_bytes


@pytest.fixture(autouse=True)
def untouched_home(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    """No test reads or fills the user's own cache, data folder or proxy settings."""
    monkeypatch.setenv("HPFL_CACHE_DIR", str(tmp_path / "cache"))
    for name in ("HPFL_DATA_DIR", "http_proxy", "HTTP_PROXY", "all_proxy", "ALL_PROXY"):
        monkeypatch.delenv(name, raising=False)


@pytest.fixture(scope="session")
def real_data_dir() -> Path:
    """A folder with the publisher's MNIST: `HPFL_DATA_DIR`, else `shared/data` beside the repository."""
    beside = Path(__file__).resolve().parents[3] / "shared" / "data"
    folder = Path(os.environ.get("HPFL_DATA_DIR") or beside)
    if not (folder / "mnist" / "train-images-idx3-ubyte.gz").is_file():
        pytest.skip("the full MNIST is not here")
    return folder


@pytest.fixture
def tiny_mnist(tmp_path: Path) -> Path:
    """Thirty training and ten test images as packed IDX files."""
    folder = tmp_path / "data" / "mnist"
    folder.mkdir(parents=True)
    for part, count in (("train", 30), ("t10k", 10)):
        pixels = (np.arange(count * 784) % 251).astype(np.uint8).reshape(count, 28, 28)
        labels = (np.arange(count) % 10).astype(np.uint8)
        (folder / f"{part}-images-idx3-ubyte.gz").write_bytes(gzip.compress(idx_bytes(pixels)))
        (folder / f"{part}-labels-idx1-ubyte.gz").write_bytes(gzip.compress(idx_bytes(labels)))
    return folder


@pytest.fixture
def tiny_cifar10(tmp_path: Path) -> Path:
    """Six binary files of four images each; the first pixel byte of an image says its number."""
    folder = tmp_path / "data" / "cifar-10-batches-bin"
    folder.mkdir(parents=True)
    for number, name in enumerate([*(f"data_batch_{n}.bin" for n in range(1, 6)), "test_batch.bin"]):
        records = np.zeros((4, 3073), dtype=np.uint8)
        records[:, 0] = (np.arange(4) + number) % 10
        records[:, 1] = 4 * number + np.arange(4)
        records[:, 1 + 2048] = 200
        records.tofile(folder / name)
    return folder


@pytest.fixture
def site() -> Iterator[Site]:
    served = Site()

    class Handler(BaseHTTPRequestHandler):
        def do_GET(self) -> None:
            served.answer(self)

        def log_message(self, *args: object) -> None:
            pass

    with ThreadingHTTPServer(("127.0.0.1", 0), Handler) as server:
        served.address = f"http://127.0.0.1:{server.server_port}"
        thread = threading.Thread(target=server.serve_forever, kwargs={"poll_interval": 0.01})
        thread.start()
        yield served
        server.shutdown()
        thread.join()
