"""Pairs chosen or made by models: filtered (`filtering`), translated back (`back_translation`)."""
