"""Export of a model folder to one HTML file that translates in a browser, without a server or a network.

`parts/` holds what the page is made of: the model in JavaScript (`tokenizer.js`, `weights.js`, `attention.js`,
`encoder.js`, `decoder.js`, `beam.js`, `translator.js`), what draws it (`page.js`, `style.css`, `shell.html`), and
`prove.js`, with which Node runs the model of a page.
"""
