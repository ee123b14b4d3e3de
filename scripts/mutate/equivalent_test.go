package main

import "testing"

// Each entry of equivalent.txt is still a place of the program: where its line has changed, the reason may have as well.
func TestEquivalentsAreSites(t *testing.T) {
	t.Chdir("../..")
	all, err := readEquivalents("scripts/mutate/equivalent.txt")
	if err != nil || len(all) == 0 {
		t.Fatal(len(all), err)
	}
	for pkg, entries := range all {
		sites, err := sitesOf(pkg)
		if err != nil {
			t.Fatal(err)
		}
		left, err := all.remove(pkg, sites)
		if err != nil {
			t.Error(err)
		}
		if len(sites)-len(left) < len(entries) {
			t.Errorf("%s: %d places are left out for %d entries", pkg, len(sites)-len(left), len(entries))
		}
	}
}
