"""Other tools' files: one module a format, to read results made elsewhere and to write ours."""
