package main

import (
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"
)

// Licences are known by what they say, however it is broken into lines; a text may have several.
func TestLicencesIn(t *testing.T) {
	t.Parallel()
	bsd := "Redistribution and use in source and binary\nforms, with or without modification"
	for _, c := range []struct {
		text string
		want string
	}{
		{"                                 Apache License\n                           Version 2.0, January 2004", "Apache-2.0"},
		{"Permission is hereby granted, free of charge, to any\n person obtaining a copy", "MIT"},
		{bsd, "BSD-2-Clause"}, {bsd + " ... Neither the name of Google Inc.", "BSD-3-Clause"},
		{bsd + "\nneither the name\nPermission is hereby granted, free of charge, to any person obtaining a copy", "BSD-3-Clause MIT"},
		{"Permission to use, copy, modify, and/or distribute this software for any purpose", "ISC"},
		{"All rights reserved.", ""},
	} {
		if got := strings.Join(licencesIn(c.text), " "); got != c.want {
			t.Errorf("%.40q: %s, want %s", c.text, got, c.want)
		}
	}
}

// A module's licence and notice come with the program; one without a licence stops the release in one line.
func TestLicenceOf(t *testing.T) {
	t.Parallel()
	dir := t.TempDir()
	if _, err := licenceOf("example.com/m", "v1", dir); err == nil || !strings.Contains(err.Error(), "none that is known") || strings.Contains(err.Error(), "\n") {
		t.Errorf("without a licence: %v", err)
	}
	for name, text := range map[string]string{"LICENSE.md": "Permission is hereby granted, free of charge, to any person obtaining a copy", "NOTICE": "made by somebody", "main.go": "Mozilla Public License Version 2.0"} {
		if err := os.WriteFile(filepath.Join(dir, name), []byte(text), 0o644); err != nil {
			t.Fatal(err)
		}
	}
	l, err := licenceOf("example.com/m", "v1", dir)
	if err != nil || !slices.Equal(l.ids, []string{"MIT"}) {
		t.Fatalf("%+v, %v", l, err)
	}
	if text := string(notices([]licence{l})); !strings.Contains(text, "example.com/m v1: MIT\n") || !strings.Contains(text, "made by somebody") {
		t.Error(text)
	}
	if got := escaped("github.com/BurntSushi/toml"); got != "github.com/!burnt!sushi/toml" {
		t.Error(got)
	}
}
