"""Many runs: what a study is made of, the engines that play its runs, and what is left of them together."""
