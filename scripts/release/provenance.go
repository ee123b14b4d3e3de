package main

import (
	"debug/buildinfo"
	"encoding/json"
	"os/exec"
	"strings"
	"time"
)

// A provenance is an in-toto statement with SLSA's predicate: which files were made of which commit, and with what.
type (
	provenance struct {
		Type      string    `json:"_type"`
		Subjects  []subject `json:"subject"`
		Predicate string    `json:"predicateType"`
		Built     built     `json:"predicate"`
	}
	subject struct {
		Name   string            `json:"name"`
		Digest map[string]string `json:"digest"`
	}
	built struct {
		Definition definition `json:"buildDefinition"`
		Run        run        `json:"runDetails"`
	}
	definition struct {
		Type       string            `json:"buildType"`
		Parameters map[string]string `json:"externalParameters"`
		Sources    []subject         `json:"resolvedDependencies"`
	}
	run struct {
		Builder  map[string]string `json:"builder"`
		Metadata map[string]string `json:"metadata"`
	}
)

// provenance writes where the files of this release come from. What built it says so in QUERN_BUILDER; a signature of
// SHA256SUMS covers it.
func (r *release) provenance(files []subject, builder string) error {
	info, err := buildinfo.ReadFile(r.binary)
	if err != nil {
		return err
	}
	settings := map[string]string{}
	for _, s := range info.Settings {
		settings[s.Key] = s.Value
	}
	commit := settings["vcs.revision"]
	if commit == "" {
		if out, err := exec.Command("git", "rev-parse", "HEAD").Output(); err == nil {
			commit = strings.TrimSpace(string(out))
		}
	}
	if builder == "" {
		builder = "https://" + info.Main.Path + "/scripts/release.sh"
	}
	p := provenance{
		Type: "https://in-toto.io/Statement/v1", Subjects: files, Predicate: "https://slsa.dev/provenance/v1",
		Built: built{
			Definition: definition{
				Type:       "https://" + info.Main.Path + "/scripts/release",
				Parameters: map[string]string{"version": r.version, "system": r.system, "arch": r.arch, "go": info.GoVersion, "modified": settings["vcs.modified"]},
				Sources:    []subject{{"git+https://" + info.Main.Path, map[string]string{"gitCommit": commit}}},
			},
			Run: run{map[string]string{"id": builder}, map[string]string{"finishedOn": r.time.Format(time.RFC3339)}},
		},
	}
	out, err := json.MarshalIndent(p, "", " ")
	if err != nil {
		return err
	}
	return writeFile(r.name(".provenance.json"), append(out, '\n'))
}
