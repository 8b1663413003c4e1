"""How a page of results looks, on a screen of any width and on paper; nothing is fetched from elsewhere."""

PAGE_STYLE = """
:root { --ink: #1f2933; --muted: #5b6774; --faint: #e3e7ec; --paper: #fff; --wash: #f6f8fa }
* { box-sizing: border-box }
body { font: 16px/1.5 system-ui, sans-serif; color: var(--ink); background: var(--paper); margin: 0 auto; padding: 1rem;
  max-width: 62rem }
h1 { font-size: 1.7rem; line-height: 1.2; margin: 1rem 0 .3rem } h2 { font-size: 1.25rem; margin: 2.4rem 0 .4rem }
p { max-width: 46rem; margin: .4rem 0 } .muted, figcaption { color: var(--muted); font-size: .9rem }
a { color: #005a8f } code, pre { font: .85rem/1.45 ui-monospace, monospace; background: var(--wash) }
pre { padding: .7rem; overflow-x: auto; border-radius: 4px } code { padding: .1rem .25rem; border-radius: 3px }
figure { margin: 1rem 0 } img { width: 100%; height: auto; display: block }
.scroll { overflow-x: auto } table { border-collapse: collapse; font-size: .88rem; width: 100%; margin: .6rem 0 }
th, td { text-align: left; vertical-align: top; padding: .35rem .6rem .35rem 0; border-bottom: 1px solid var(--faint) }
th { color: var(--muted); font-weight: 600 } td.number { font-variant-numeric: tabular-nums; white-space: nowrap }
.verdict { font-weight: 600; white-space: nowrap; padding: .05rem .5rem; border-radius: 1rem; border: 1px solid }
.holds { color: #00664b; background: #e5f5f0 } .not { color: #9a3d00; background: #fdf0e7 }
.open { color: #4a5560; background: #f1f3f5 } summary { cursor: pointer; color: var(--muted); margin: .3rem 0 }
@media screen and (max-width: 42rem) { table.claims thead { display: none }
  table.claims, table.claims > tbody { display: block }
  table.claims > tbody > tr { display: grid; grid-template-columns: 2.2rem minmax(0, 1fr); gap: .15rem 0;
    padding: .7rem 0; border-bottom: 1px solid var(--faint) }
  table.claims > tbody > tr > td { border: 0; padding: 0; grid-column: 2 }
  table.claims > tbody > tr > td:first-child { grid-column: 1; grid-row: 1; font-weight: 600 } }
@media print { body { max-width: none; font-size: 10pt } h2 { break-after: avoid } figure { break-inside: avoid }
  .scroll { overflow: visible } }
"""


def whole_page(title: str, body: str) -> str:
    """A page in this style; `title` and `body` are HTML."""
    return (
        '<!doctype html><html lang="en"><head><meta charset="utf-8">'
        '<meta name="viewport" content="width=device-width, initial-scale=1">'
        f"<title>{title}</title><style>{PAGE_STYLE}</style></head><body>{body}</body></html>\n"
    )
