"""A page that shows runs in a browser while they go on and when they are over: it reads their folders, nothing else.

Needs the extra `watch` (Starlette and uvicorn) to serve; reading and exporting need nothing more.
"""
