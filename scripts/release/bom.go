package main

import (
	"debug/buildinfo"
	"encoding/json"
	"os"
	"time"
)

// The bill of materials is CycloneDX 1.6, of what Go recorded in the program when it was built.
type (
	bom struct {
		Format     string      `json:"bomFormat"`
		Spec       string      `json:"specVersion"`
		Version    int         `json:"version"`
		Metadata   bomMetadata `json:"metadata"`
		Components []component `json:"components"`
	}
	bomMetadata struct {
		Timestamp string    `json:"timestamp"`
		Component component `json:"component"`
	}
	component struct {
		Type       string     `json:"type"`
		Ref        string     `json:"bom-ref"`
		Name       string     `json:"name"`
		Version    string     `json:"version"`
		PURL       string     `json:"purl,omitempty"`
		Hashes     []hash     `json:"hashes,omitempty"`
		Licences   []spdx     `json:"licenses,omitempty"`
		Properties []property `json:"properties,omitempty"`
	}
	hash struct {
		Algorithm string `json:"alg"`
		Content   string `json:"content"`
	}
	spdx struct {
		Expression string `json:"expression"`
	}
	property struct {
		Name  string `json:"name"`
		Value string `json:"value"`
	}
)

// billOfMaterials writes which modules the program was built of, and what they may be used under.
func (r *release) billOfMaterials() error {
	info, err := buildinfo.ReadFile(r.binary)
	if err != nil {
		return err
	}
	all, err := licences(info)
	if err != nil {
		return err
	}
	if err := writeFile(r.name(".licences.txt"), notices(all)); err != nil {
		return err
	}
	data, err := os.ReadFile(r.binary)
	if err != nil {
		return err
	}
	module := func(path, version string) component {
		purl := "pkg:golang/" + path + "@" + version
		return component{Type: "library", Ref: purl, Name: path, Version: version, PURL: purl}
	}
	main := component{Type: "application", Ref: "quern", Name: info.Main.Path, Version: r.version, Hashes: []hash{{"SHA-256", digest(data)}}}
	for _, s := range info.Settings {
		main.Properties = append(main.Properties, property{"go:" + s.Key, s.Value})
	}
	b := bom{Format: "CycloneDX", Spec: "1.6", Version: 1, Metadata: bomMetadata{r.time.Format(time.RFC3339), main}}
	std := module("std", info.GoVersion)
	std.Licences = []spdx{{all[0].expression()}}
	b.Components = append(b.Components, std)
	for i, m := range info.Deps {
		used := origin(m)
		c := module(used.Path, used.Version)
		c.Licences = []spdx{{all[i+1].expression()}}
		if used.Sum != "" {
			c.Properties = []property{{"go:sum", used.Sum}}
		}
		b.Components = append(b.Components, c)
	}
	out, err := json.MarshalIndent(b, "", " ")
	if err != nil {
		return err
	}
	return writeFile(r.name(".cdx.json"), append(out, '\n'))
}
