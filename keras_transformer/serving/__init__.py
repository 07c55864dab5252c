"""A server for trying out: TF Serving's REST interface, and a page."""
