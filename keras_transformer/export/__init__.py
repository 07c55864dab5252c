"""A translator as a SavedModel: strings in, strings out, no Python needed."""

from keras_transformer.export.folder import export_saved_model

__all__ = ["export_saved_model"]
