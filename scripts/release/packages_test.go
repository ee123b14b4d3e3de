package main

import (
	"archive/zip"
	"encoding/json"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"strings"
	"testing"
	"time"

	"github.com/goccy/go-yaml"
)

// archives is a folder with what a release has for Windows and macOS, each of a few bytes.
func archives(t *testing.T, version string) *release {
	t.Helper()
	t.Chdir("../..")
	dir := t.TempDir()
	binary := filepath.Join(dir, "program")
	docs := filepath.Join(dir, "docs")
	for name, text := range map[string]string{
		binary: "a program", filepath.Join(docs, "man/man1/quern.1"): ".TH quern", filepath.Join(docs, "completions/quern.bash"): "complete",
	} {
		if err := os.MkdirAll(filepath.Dir(name), 0o755); err != nil {
			t.Fatal(err)
		}
		if err := os.WriteFile(name, []byte(text), 0o755); err != nil {
			t.Fatal(err)
		}
	}
	r := &release{binary: binary, version: version, docs: docs, out: filepath.Join(dir, "dist"), time: time.Unix(1e9, 0).UTC()}
	if err := os.Mkdir(r.out, 0o755); err != nil {
		t.Fatal(err)
	}
	for _, at := range []string{"windows amd64", "windows arm64", "darwin arm64", "darwin amd64"} {
		r.system, r.arch, _ = strings.Cut(at, " ")
		if err := os.WriteFile(r.name(".licences.txt"), []byte("licences"), 0o644); err != nil {
			t.Fatal(err)
		}
		if err := r.archive(); err != nil {
			t.Fatal(err)
		}
	}
	return r
}

func read(t *testing.T, r *release, name string) []byte {
	t.Helper()
	b, err := os.ReadFile(filepath.Join(r.out, name))
	if err != nil {
		t.Fatal(err)
	}
	return b
}

// The zip has the program at its top, where winget and Scoop look for it, and is the same each time.
func TestZip(t *testing.T) {
	r := archives(t, "v1.2.3")
	name := "quern-v1.2.3-windows-amd64.zip"
	before := read(t, r, name)
	r.system, r.arch = "windows", "amd64"
	if err := r.archive(); err != nil {
		t.Fatal(err)
	}
	if string(before) != string(read(t, r, name)) {
		t.Error("a second zip has other bytes")
	}
	z, err := zip.OpenReader(filepath.Join(r.out, name))
	if err != nil {
		t.Fatal(err)
	}
	defer z.Close()
	var names []string
	for _, f := range z.File {
		names = append(names, f.Name)
		if !f.Modified.Equal(r.time) {
			t.Errorf("%s is of %v, want %v", f.Name, f.Modified, r.time)
		}
	}
	if got := strings.Join(names, " "); got != "LICENCES.txt LICENSE README.md quern.exe" {
		t.Errorf("the zip has %s", got)
	}
}

// The forms of winget, Scoop and Homebrew, with the sums of the archives that are there.
func TestPackages(t *testing.T) {
	r := archives(t, "v1.2.3")
	if err := r.packages(); err != nil {
		t.Fatal(err)
	}
	const url = "https://github.com/quern-llm/quern/releases/download/v1.2.3/"
	sum := func(name string) string { return digest(read(t, r, name)) }

	windows := "quern-v1.2.3-windows-amd64.zip"
	kinds := map[string]map[string]any{}
	for _, end := range []string{"", ".installer", ".locale.en-US"} {
		var m map[string]any
		if err := yaml.Unmarshal(read(t, r, "packages/winget/Quern.Quern"+end+".yaml"), &m); err != nil {
			t.Fatal(err)
		}
		if m["PackageIdentifier"] != "Quern.Quern" || m["PackageVersion"] != "1.2.3" || m["ManifestVersion"] != "1.6.0" {
			t.Errorf("winget%s: %v", end, m)
		}
		kinds[m["ManifestType"].(string)] = m
	}
	if len(kinds) != 3 || kinds["version"]["DefaultLocale"] != kinds["defaultLocale"]["PackageLocale"] {
		t.Errorf("winget's kinds: %v", kinds)
	}
	if s, _ := kinds["defaultLocale"]["ShortDescription"].(string); len(s) < 3 || len(s) > 256 {
		t.Errorf("winget describes it by %d letters, want 3 to 256", len(s))
	}
	arm := "quern-v1.2.3-windows-arm64.zip"
	installers := kinds["installer"]["Installers"].([]any)
	for i, want := range []struct{ arch, name string }{{"x64", windows}, {"arm64", arm}} {
		if i >= len(installers) {
			t.Errorf("winget has no installer for %s", want.arch)
			continue
		}
		is := installers[i].(map[string]any)
		if is["InstallerUrl"] != url+want.name || is["InstallerSha256"] != strings.ToUpper(sum(want.name)) || is["Architecture"] != want.arch {
			t.Errorf("winget installs %v", is)
		}
	}

	var scoop struct {
		Version, License, Bin string
		Architecture          map[string]struct{ URL, Hash string }
	}
	if err := json.Unmarshal(read(t, r, "packages/scoop/quern.json"), &scoop); err != nil {
		t.Fatal(err)
	}
	if at := scoop.Architecture["64bit"]; scoop.Version != "1.2.3" || scoop.Bin != "quern.exe" || at.URL != url+windows || at.Hash != sum(windows) {
		t.Errorf("Scoop installs %+v", scoop)
	}
	if at := scoop.Architecture["arm64"]; at.URL != url+arm || at.Hash != sum(arm) {
		t.Errorf("Scoop installs %+v", scoop)
	}

	sums := string(read(t, r, "SHA256SUMS"))
	for _, name := range []string{windows, arm, "packages/winget/Quern.Quern.installer.yaml", "packages/scoop/quern.json", "packages/homebrew/quern.rb"} {
		if line := sum(name) + "  " + name + "\n"; strings.Count(sums, line) != 1 {
			t.Errorf("SHA256SUMS has no %s:\n%s", line, sums)
		}
	}

	formula := string(read(t, r, "packages/homebrew/quern.rb"))
	for _, arch := range []string{"arm64", "amd64"} {
		name := "quern-v1.2.3-darwin-" + arch + ".tar.gz"
		if want := "url \"" + url + name + "\"\n    sha256 \"" + sum(name) + "\""; strings.Count(formula, want) != 1 {
			t.Errorf("the formula has no %s:\n%s", want, formula)
		}
	}
	begins := len(regexp.MustCompile(`(?m)^class |^ *def | do$`).FindAllString(formula, -1))
	if ends := len(regexp.MustCompile(`(?m)^ *end$`).FindAllString(formula, -1)); begins != ends || begins != 5 {
		t.Errorf("the formula begins %d blocks and ends %d", begins, ends)
	}
	if ruby, err := exec.LookPath("ruby"); err == nil {
		if out, err := exec.Command(ruby, "-c", filepath.Join(r.out, "packages/homebrew/quern.rb")).CombinedOutput(); err != nil {
			t.Errorf("ruby -c: %v\n%s", err, out)
		}
	}
}

// Where the archives of a system are not there, so are its manifests.
func TestPackagesOfWhatIsThere(t *testing.T) {
	r := archives(t, "v1.2.3")
	if err := os.Remove(filepath.Join(r.out, "quern-v1.2.3-darwin-arm64.tar.gz")); err != nil {
		t.Fatal(err)
	}
	if err := r.packages(); err != nil {
		t.Fatal(err)
	}
	if _, err := os.Stat(filepath.Join(r.out, "packages/homebrew")); !os.IsNotExist(err) {
		t.Errorf("a formula without its archives: %v", err)
	}
	if got := string(read(t, r, "packages/scoop/quern.json")); !strings.Contains(got, "windows-arm64") {
		t.Errorf("Scoop does not have the archive for Arm: %s", got)
	}
	if err := os.Remove(filepath.Join(r.out, "quern-v1.2.3-windows-arm64.zip")); err != nil {
		t.Fatal(err)
	}
	if err := r.packages(); err != nil {
		t.Fatal(err)
	}
	for _, name := range []string{"packages/scoop/quern.json", "packages/winget/Quern.Quern.installer.yaml"} {
		if got := string(read(t, r, name)); strings.Contains(got, "arm64") || !strings.Contains(got, "windows-amd64") {
			t.Errorf("%s without the archive for Arm: %s", name, got)
		}
	}
}
