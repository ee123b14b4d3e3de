package main

import (
	"bytes"
	"encoding/json"
	"fmt"
	"io/fs"
	"maps"
	"os"
	"path"
	"path/filepath"
	"strings"
)

// bundle adds to schemas the documents whose file names they mention, and so on: to $defs, each with the URI at which it is
// served, unless it has one of its own. others is a folder, = and its URI.
func bundle(all []task, others string) error {
	dir, base, ok := strings.Cut(others, "=")
	if !ok {
		return fmt.Errorf("-others: %q, want FOLDER=URI", others)
	}
	documents := map[string]json.RawMessage{}
	err := filepath.WalkDir(dir, func(name string, d fs.DirEntry, err error) error {
		if err != nil || d.IsDir() || filepath.Ext(name) != ".json" {
			return err
		}
		text, err := os.ReadFile(name)
		if err != nil {
			return err
		}
		inner, err := filepath.Rel(dir, name)
		if err != nil {
			return err
		}
		uri := base + "/" + filepath.ToSlash(inner)
		var members map[string]json.RawMessage
		if json.Unmarshal(text, &members) != nil || len(members) == 0 {
			return nil // true or false
		}
		if members["$id"] == nil {
			text = fmt.Appendf(nil, `{"$id":%q,%s`, uri, bytes.TrimSpace(text)[1:])
		}
		documents[uri] = text
		return nil
	})
	if err != nil {
		return err
	}
	for i := range all {
		if all[i].Schema, err = bundled(all[i].Schema, documents); err != nil {
			return fmt.Errorf("%s: %w", all[i].name, err)
		}
	}
	return nil
}

// bundled returns a schema with the documents that it mentions.
func bundled(schema json.RawMessage, documents map[string]json.RawMessage) (json.RawMessage, error) {
	var members map[string]json.RawMessage
	if json.Unmarshal(schema, &members) != nil || members == nil {
		return schema, nil
	}
	added := map[string]json.RawMessage{}
	text := string(schema)
	for n := -1; n < len(added); {
		n = len(added)
		for uri, document := range documents {
			if added[uri] == nil && strings.Contains(text, path.Base(uri)) {
				added[uri] = document
				text += string(document)
			}
		}
	}
	if len(added) == 0 {
		return schema, nil
	}
	defs := map[string]json.RawMessage{}
	if members["$defs"] != nil {
		if err := json.Unmarshal(members["$defs"], &defs); err != nil {
			return nil, err
		}
	}
	maps.Copy(defs, added)
	var err error
	if members["$defs"], err = json.Marshal(defs); err != nil {
		return nil, err
	}
	return json.Marshal(members)
}
