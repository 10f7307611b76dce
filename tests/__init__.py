"""The tests; a package, since some of those that are installed beside bring one of this name."""
