"""Side-by-side benchmarks; `benchmarks/README.md` says how to run them and how they measure."""
