package main

import "flag"

func micro(flags *flag.FlagSet, args []string) error { return nil }
