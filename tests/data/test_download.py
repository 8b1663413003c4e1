import hashlib
from collections.abc import Callable
from pathlib import Path

import pytest
from data_files import Site, status, truncated, whole

from hpfl.data.download import ATTEMPTS, DownloadError, RemoteFile, cache_dir, fetch

CONTENT = bytes(range(256)) * 2000
CORRUPTED = CONTENT[:1000] + b"?" + CONTENT[1001:]


def remote(*urls: str) -> RemoteFile:
    return RemoteFile("file.gz", urls, len(CONTENT), hashlib.sha256(CONTENT).hexdigest())


@pytest.fixture
def pauses() -> list[float]:
    return []


@pytest.fixture
def get(tmp_path: Path, pauses: list[float]) -> Callable[[RemoteFile], Path]:
    return lambda wanted: fetch(wanted, tmp_path / "cache", sleep=pauses.append)


Get = Callable[[RemoteFile], Path]


def test_a_file_is_downloaded_once(site: Site, get: Get, pauses: list[float]) -> None:
    wanted = remote(site.offer("/file.gz", whole(CONTENT)))
    assert get(wanted).read_bytes() == CONTENT
    assert get(wanted).read_bytes() == CONTENT
    assert (site.asked, pauses) == (["/file.gz"], [])


def test_a_truncated_file_is_fetched_again(site: Site, get: Get, pauses: list[float]) -> None:
    wanted = remote(site.offer("/file.gz", truncated(CONTENT, 70_000), whole(CONTENT)))
    assert get(wanted).read_bytes() == CONTENT
    assert pauses == [1.0]


def test_a_corrupted_file_is_fetched_again(site: Site, get: Get) -> None:
    wanted = remote(site.offer("/file.gz", whole(CORRUPTED), whole(CONTENT)))
    assert get(wanted).read_bytes() == CONTENT


@pytest.mark.parametrize(
    ("answer", "reason"),
    [
        (truncated(CONTENT, 70_000), r"truncated: 70,000 of 512,000 bytes"),
        (whole(CORRUPTED), r"corrupted: SHA-256 is [0-9a-f]{64}, wanted [0-9a-f]{64}"),
        (whole(CONTENT + b"!"), r"more than the expected 512,000 bytes"),
        (status(503), r"HTTP Error 503"),
    ],
)
def test_a_file_that_never_comes_whole_is_refused_and_leaves_nothing_behind(
    site: Site, get: Get, pauses: list[float], tmp_path: Path, answer: Callable[..., None], reason: str
) -> None:
    url = site.offer("/file.gz", answer)
    with pytest.raises(DownloadError, match=rf"file\.gz could not be downloaded: {url}: .*{reason}"):
        get(remote(url))
    assert len(site.asked) == ATTEMPTS
    assert pauses == [1.0, 2.0]
    assert list((tmp_path / "cache").iterdir()) == []


def test_the_next_mirror_is_asked_when_one_fails(site: Site, get: Get, pauses: list[float]) -> None:
    urls = site.offer("/first", status(500)), site.offer("/second", whole(CONTENT))
    assert get(remote(*urls)).read_bytes() == CONTENT
    assert (site.asked, pauses) == (["/first", "/second"], [])


def test_a_file_that_is_not_there_is_not_asked_for_again(site: Site, get: Get, pauses: list[float]) -> None:
    with pytest.raises(DownloadError, match="404"):
        get(remote(site.offer("/file.gz", status(404))))
    assert (site.asked, pauses) == (["/file.gz"], [])


def test_a_server_that_is_not_there_is_named(get: Get) -> None:
    with pytest.raises(DownloadError, match=r"http://127\.0\.0\.1:9/file: "):
        get(remote("http://127.0.0.1:9/file"))


def test_a_damaged_file_in_the_cache_is_replaced(site: Site, get: Get, tmp_path: Path) -> None:
    (tmp_path / "cache").mkdir()
    (tmp_path / "cache" / "file.gz").write_bytes(CORRUPTED)
    assert get(remote(site.offer("/file.gz", whole(CONTENT)))).read_bytes() == CONTENT


def test_progress_counts_up_to_the_whole_file(site: Site, tmp_path: Path) -> None:
    seen: list[tuple[str, int, int]] = []
    wanted = remote(site.offer("/file.gz", whole(CONTENT)))
    fetch(wanted, tmp_path, progress=lambda name, done, total: seen.append((name, done, total)))
    counts = [done for _, done, _ in seen]
    assert counts == sorted(set(counts))
    assert seen[-1] == ("file.gz", len(CONTENT), len(CONTENT))


def test_a_cache_that_cannot_be_made_says_how_to_name_another(tmp_path: Path) -> None:
    (tmp_path / "file").write_text("in the way")
    with pytest.raises(DownloadError, match="HPFL_CACHE_DIR"):
        fetch(remote("http://127.0.0.1:9/file"), tmp_path / "file" / "cache")


def test_the_cache_is_where_the_environment_says(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("HPFL_CACHE_DIR", "/own")
    assert cache_dir() == Path("/own")
    monkeypatch.delenv("HPFL_CACHE_DIR")
    monkeypatch.setenv("XDG_CACHE_HOME", "/xdg")
    assert cache_dir() == Path("/xdg/hpfl")
    monkeypatch.delenv("XDG_CACHE_HOME")
    assert cache_dir() == Path.home() / ".cache" / "hpfl"
