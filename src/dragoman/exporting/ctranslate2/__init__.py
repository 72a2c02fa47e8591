"""Models as folders of CTranslate2: `mapping` puts weights in their places, `exporting` writes and proves a folder."""
