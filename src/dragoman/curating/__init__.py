"""Pairs chosen or made by models: filtered, translated by a model, or asked of a service."""
