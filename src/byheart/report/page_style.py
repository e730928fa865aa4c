"""The style sheet of the page: one column, wide tables scroll by themselves, light and dark."""

from __future__ import annotations

STYLE = """
:root { --ink: #1b1f24; --soft: #5b6570; --line: #dde2e7; --paper: #ffffff; --wash: #f6f8fa; --link: #0b5cad;
  --yes: #1a7f37; --partly: #9a6700; --no: #b42318; --open: #57606a; }
* { box-sizing: border-box; }
body { margin: 0; color: var(--ink); background: var(--wash); line-height: 1.55;
  font: 16px/1.55 system-ui, -apple-system, "Segoe UI", Roboto, "Helvetica Neue", Arial, sans-serif; }
header, main { max-width: 1120px; margin: 0 auto; padding: 0 20px; }
header { padding-top: 40px; }
h1 { font-size: clamp(1.5rem, 4vw, 2.2rem); line-height: 1.2; margin: 0 0 .4em; }
h2 { font-size: 1.15rem; margin: 2.6em 0 .8em; padding-bottom: .3em; border-bottom: 1px solid var(--line); }
h3 { font-size: 1.05rem; margin: 0 0 .3em; }
header p, .claim { color: var(--soft); max-width: 70ch; }
.claim { margin: 0 0 1em; font-style: italic; }
section { background: var(--paper); border: 1px solid var(--line); border-radius: 10px; padding: 20px 22px; margin: 18px 0; }
section p { max-width: 85ch; overflow-wrap: anywhere; }
a { color: var(--link); text-decoration: none; } a:hover { text-decoration: underline; }
.scroll, .figure { overflow-x: auto; }
.figure svg { display: block; max-width: 100%; height: auto; margin: 0 auto; background: #fff; }
table { border-collapse: collapse; width: 100%; font-size: .9rem; background: var(--paper); }
th, td { text-align: left; vertical-align: top; padding: 7px 12px; border-bottom: 1px solid var(--line); }
th { color: var(--soft); font-weight: 600; white-space: nowrap; }
.overview { border: 1px solid var(--line); border-radius: 10px; }
h4 { font-size: .95rem; margin: 1.2em 0 .4em; }
.overview td { min-width: 7em; } .overview td:nth-child(2), .overview td:nth-child(3) { min-width: 15em; }
.overview td:nth-child(5) { min-width: 0; } .overview small { display: block; color: var(--soft); margin-top: .3em; }
.checks td { min-width: 9em; } .checks td:first-child { min-width: 0; }
.mark { font-weight: 700; } .mark.yes { color: var(--yes); } .mark.no { color: var(--no); } .mark.open { color: var(--open); }
.badge { display: inline-block; white-space: nowrap; font-size: .78rem; font-weight: 600; color: #fff; padding: 1px 10px;
  border-radius: 999px; vertical-align: .1em; }
.badge.yes { background: var(--yes); } .badge.partly { background: var(--partly); }
.badge.no { background: var(--no); } .badge.open { background: var(--open); }
details { margin-top: 1em; font-size: .9rem; } summary { cursor: pointer; color: var(--link); }
pre { overflow-x: auto; background: var(--wash); padding: 12px; border-radius: 8px; font-size: .78rem; max-height: 26em; }
main { padding-bottom: 60px; }
@media (max-width: 640px) {
  header, main { padding-left: 12px; padding-right: 12px; } section { padding: 14px; }
  .figure.wide svg { max-width: none; width: 900px; } th, td { padding: 6px 8px; }
  .overview thead { display: none; } .overview tr { display: block; padding: 8px 0; border-bottom: 1px solid var(--line); }
  .overview td { display: block; border: 0; padding: 2px 10px; } .overview td:first-child { font-weight: 600; }
  .overview td:nth-child(n+2)::before { content: attr(data-head) ": "; color: var(--soft); }
  .checks { font-size: .8rem; } .checks td { min-width: 5.6em; overflow-wrap: anywhere; padding: 5px 5px; }
}
@media (prefers-color-scheme: dark) {
  :root { --ink: #e6e9ec; --soft: #9aa4ae; --line: #30363d; --paper: #161b22; --wash: #0d1117; --link: #6cb0f5;
    --yes: #2e9e4f; --partly: #b98206; --no: #d5473b; --open: #6e7681; }
  .figure svg { border-radius: 6px; }
}
"""
