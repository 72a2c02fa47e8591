"""The explaining page: one HTML file, readable without a network, that shows a record. Start reading at `page.py`.

`parts/` holds what the page is made of: `shell.html`, the styles, `core.js` (the record, what is chosen, elements),
`controls.js`, and one file a section.
"""
