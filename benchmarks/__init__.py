"""Scripts that measure the promised figures: one file each with a `main()`, medians and ratios in one run."""
