"""The page's server: files of the page, answers about runs, and news of them, all read-only."""

from collections.abc import Callable
from functools import cache
from pathlib import Path
from typing import Any

from starlette.applications import Starlette
from starlette.exceptions import HTTPException
from starlette.requests import Request
from starlette.responses import Response, StreamingResponse
from starlette.routing import Route

from hpfl.reporting.folder import ROUNDS, TIMELINE, UES
from hpfl.watch.csv_files import csv_lines
from hpfl.watch.events import News
from hpfl.watch.export import MODULES
from hpfl.watch.guard import Asgi, Guard
from hpfl.watch.page_answers import FolderAnswers, RoundSpan, UnknownError
from hpfl.watch.shown import as_json

STATIC = Path(__file__).parent / "static"
_KINDS = {
    ".html": "text/html; charset=utf-8",
    ".css": "text/css; charset=utf-8",
    ".js": "text/javascript; charset=utf-8",
    ".svg": "image/svg+xml",
    ".txt": "text/plain; charset=utf-8",
}
_LARGEST = 10**9
_FILES = {"rounds.csv": ROUNDS, "timeline.csv": TIMELINE, "ues.csv": UES}


def make_app(
    answers: FolderAnswers,
    *,
    hosts: frozenset[str] | None,
    token: str = "",
    secure: bool = False,
    is_over: Callable[[], bool] = lambda: False,
) -> Asgi:
    """The whole application behind its guard; who listens is let go once it `is_over`."""
    news = News(answers.sources, is_over)

    async def events(_request: Request) -> Response:
        if news.is_full:
            return _failed(503, "too many pages are open; close one")
        return StreamingResponse(news.listen(), media_type="text/event-stream")

    routes = [*_api(answers), Route("/api/events", events), Route("/{path:path}", _static)]
    handlers: Any = {UnknownError: _unknown, HTTPException: _refused, Exception: _broken}
    app = Starlette(routes=routes, exception_handlers=handlers)
    return Guard(app, hosts=hosts, token=token, secure=secure)


def _api(answers: FolderAnswers) -> list[Route]:
    """One route for each question of the page; each is answered in a thread of its own."""

    def of_run(ask: Callable[[str, Request], Any]) -> Callable[[Request], Response]:
        return lambda request: _answer(ask(request.path_params["run"], request))

    asked: dict[str, Callable[[str, Request], Any]] = {
        "columns": lambda run, request: answers.columns(run, _span(request)),
        "rounds/{number}": lambda run, request: answers.round(run, _count(request.path_params["number"], "a round")),
        "gantt": lambda run, request: answers.gantt(run, _span(request)),
        "edges": lambda run, request: answers.edges(run, _span(request)),
        "plans": lambda run, request: answers.plans(run, _span(request)),
        "ues": lambda run, request: answers.ues(run, _optional(request, "ue")),
        "nodes": lambda run, _request: answers.nodes(run),
    }

    def file(request: Request) -> Response:
        name = request.path_params["name"]
        if name not in _FILES:
            raise UnknownError(f"there is no such file; wanted {', '.join(_FILES)}")
        run = answers.run(request.path_params["run"])
        lines = csv_lines(run.folder / _FILES[name])
        if lines is None:
            raise UnknownError(f"the run has no {_FILES[name]} yet")
        return StreamingResponse(
            lines,
            media_type="text/csv; charset=utf-8",
            headers={"content-disposition": f'attachment; filename="{name}"'},
        )

    return [
        Route("/api/runs", lambda _request: _answer(answers.runs())),
        *(Route(f"/api/runs/{{run}}/{path}", of_run(ask)) for path, ask in asked.items()),
        Route("/api/runs/{run}/files/{name}", file),
    ]


def _static(request: Request) -> Response:
    """A file of the page, by its name in the list of them: a path is looked up, never followed."""
    wanted = request.path_params["path"] or "index.html"
    found = _files_of_the_page().get(wanted)
    if found is None or found.suffix not in _KINDS:
        return _failed(404, "there is no such page")
    headers = {"link": _preloaded()} if wanted == "index.html" else None
    return Response(found.read_bytes(), media_type=_KINDS[found.suffix], headers=headers)


@cache
def _files_of_the_page() -> dict[str, Path]:
    return {str(path.relative_to(STATIC)): path for path in STATIC.rglob("*") if path.is_file()}


def _preloaded() -> str:
    """All modules are asked for at once, instead of one after the other as they import each other."""
    return ", ".join(f"</{name}>; rel=modulepreload" for name in (STATIC / MODULES).read_text("utf-8").split())


def _answer(told: Any) -> Response:
    return Response(as_json(told), media_type="application/json")


def _span(request: Request) -> RoundSpan:
    return _optional(request, "from"), _optional(request, "to")


def _optional(request: Request, name: str) -> int | None:
    said = request.query_params.get(name)
    return None if said is None else _count(said, name)


def _count(said: str, what: str) -> int:
    if not (said.isascii() and said.isdigit() and len(said) < 12 and int(said) <= _LARGEST):
        raise HTTPException(400, f"{what} should be a number from 0 to {_LARGEST}")
    return int(said)


def _unknown(_request: Request, error: Exception) -> Response:
    return _failed(404, str(error))


def _refused(_request: Request, error: Any) -> Response:
    return _failed(error.status_code, str(error.detail))


def _broken(_request: Request, error: Exception) -> Response:
    return _failed(500, f"the answer could not be made ({type(error).__name__})")


def _failed(status: int, sentence: str) -> Response:
    return Response(as_json({"error": sentence}), status_code=status, media_type="application/json")
