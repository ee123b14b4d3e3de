package main

import (
	"debug/buildinfo"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"runtime/debug"
	"slices"
	"strings"
	"unicode"
)

// marks are sentences by which licences are known, by their SPDX identifiers.
var marks = []struct{ id, has string }{
	{"Apache-2.0", "Apache License Version 2.0, January 2004"},
	{"MPL-2.0", "Mozilla Public License Version 2.0"},
	{"MIT", "Permission is hereby granted, free of charge, to any person obtaining a copy"},
	{"ISC", "Permission to use, copy, modify, and/or distribute this software for any purpose"},
	{"ISC", "Permission to use, copy, modify, and distribute this software for any purpose"},
	{"BSD-3-Clause", "Redistribution and use in source and binary forms"},
	{"Unlicense", "This is free and unencumbered software released into the public domain"},
	{"CC0-1.0", "CC0 1.0 Universal"},
}

// licencesIn returns the identifiers of the licences that a text has, in alphabetical order.
func licencesIn(text string) (ids []string) {
	flat := strings.Join(strings.Fields(strings.NewReplacer("//", " ", "*", " ", "#", " ").Replace(text)), " ")
	for _, m := range marks {
		if !strings.Contains(strings.ToLower(flat), strings.ToLower(m.has)) {
			continue
		}
		id := m.id
		if id == "BSD-3-Clause" && !strings.Contains(strings.ToLower(flat), "neither the name") {
			id = "BSD-2-Clause"
		}
		if !slices.Contains(ids, id) {
			ids = append(ids, id)
		}
	}
	slices.Sort(ids)
	return ids
}

// A licence is what a module may be used under.
type licence struct {
	name, version string
	ids           []string
	text          string
}

// expression is the licence as SPDX writes it.
func (l *licence) expression() string { return strings.Join(l.ids, " AND ") }

// licences returns those of the modules that the program was built of, from the module cache, and of Go's own library. A
// module without one that is known is an error: somebody has to read it first.
func licences(info *buildinfo.BuildInfo) ([]licence, error) {
	env := func(name string) (string, error) {
		out, err := exec.Command("go", "env", name).Output()
		return strings.TrimSpace(string(out)), err
	}
	root, err := env("GOROOT")
	if err != nil {
		return nil, err
	}
	cache, err := env("GOMODCACHE")
	if err != nil {
		return nil, err
	}
	std, err := licenceOf("std", info.GoVersion, root)
	if err != nil {
		return nil, err
	}
	all := []licence{std}
	for _, m := range info.Deps {
		used := origin(m)
		l, err := licenceOf(used.Path, used.Version, filepath.Join(cache, escaped(used.Path)+"@"+escaped(used.Version)))
		if err != nil {
			return nil, err
		}
		all = append(all, l)
	}
	return all, nil
}

// origin is the module that takes another's place, if one does.
func origin(m *debug.Module) *debug.Module {
	if m.Replace != nil {
		return m.Replace
	}
	return m
}

// escaped is a path as the module cache has it: capitals are small, behind an exclamation mark.
func escaped(path string) string {
	var b strings.Builder
	for _, r := range path {
		if unicode.IsUpper(r) {
			b.WriteByte('!')
			r = unicode.ToLower(r)
		}
		b.WriteRune(r)
	}
	return b.String()
}

// licenceOf reads the licences and notices in a module's folder.
func licenceOf(name, version, dir string) (licence, error) {
	l := licence{name: name, version: version}
	entries, err := os.ReadDir(dir)
	if err != nil {
		return l, fmt.Errorf("licence of %s: %w; go mod download fetches it", name, err)
	}
	for _, e := range entries {
		upper := strings.ToUpper(e.Name())
		if e.IsDir() || !slices.ContainsFunc([]string{"LICENSE", "LICENCE", "COPYING", "NOTICE", "UNLICENSE"}, func(s string) bool { return strings.HasPrefix(upper, s) }) {
			continue
		}
		b, err := os.ReadFile(filepath.Join(dir, e.Name()))
		if err != nil {
			return l, err
		}
		for _, id := range licencesIn(string(b)) {
			if !slices.Contains(l.ids, id) {
				l.ids = append(l.ids, id)
			}
		}
		l.text += strings.TrimSpace(string(b)) + "\n\n"
	}
	if len(l.ids) == 0 {
		return l, fmt.Errorf("licence of %s %s: none that is known in %s; read it, and add it to marks in scripts/release/licences.go if it may be used", name, version, dir)
	}
	slices.Sort(l.ids)
	return l, nil
}

// notices are the licences with their texts, as they have to come with the program.
func notices(all []licence) []byte {
	var b strings.Builder
	b.WriteString("What Quern's program is built of, and the licences of it. Quern's own is in LICENSE.\n\n")
	for _, l := range all {
		fmt.Fprintf(&b, "%s %s: %s\n", l.name, l.version, l.expression())
	}
	for _, l := range all {
		fmt.Fprintf(&b, "\n%s\n%s %s\n\n%s", strings.Repeat("-", 72), l.name, l.version, l.text)
	}
	return []byte(b.String())
}
