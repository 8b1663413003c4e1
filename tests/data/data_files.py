"""Bytes in a publisher's format, and a site of this machine that serves them well or badly."""

from collections.abc import Callable
from http.server import BaseHTTPRequestHandler

import numpy as np
from numpy.typing import NDArray

Answer = Callable[[BaseHTTPRequestHandler], None]


def idx_bytes(values: NDArray[np.uint8]) -> bytes:
    return np.array([0x0800 | values.ndim, *values.shape], dtype=">u4").tobytes() + values.tobytes()


class Site:
    """A server of this machine: each path has a queue of answers, the last of which repeats."""

    def __init__(self) -> None:
        self.answers: dict[str, list[Answer]] = {}
        self.asked: list[str] = []
        self.address = ""

    def offer(self, path: str, *answers: Answer) -> str:
        self.answers[path] = list(answers)
        return f"{self.address}{path}"

    def answer(self, handler: BaseHTTPRequestHandler) -> None:
        self.asked.append(handler.path)
        queue = self.answers.get(handler.path, [status(404)])
        (queue.pop(0) if len(queue) > 1 else queue[0])(handler)


def status(code: int) -> Answer:
    return lambda handler: handler.send_error(code)


def whole(content: bytes) -> Answer:
    return truncated(content, len(content))


def truncated(content: bytes, sent: int) -> Answer:
    """Promise all of the content, send its first bytes and hang up."""

    def answer(handler: BaseHTTPRequestHandler) -> None:
        handler.send_response(200)
        handler.send_header("Content-Length", str(len(content)))
        handler.end_headers()
        handler.wfile.write(content[:sent])

    return answer
