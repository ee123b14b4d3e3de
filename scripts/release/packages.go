package main

import (
	"bytes"
	"encoding/json"
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"text/template"
)

const (
	site        = "https://github.com/quern-llm/quern"
	description = "Runs large language models on CPUs: chat, a server with the APIs of OpenAI, Anthropic and Ollama, quantization, training"
)

// told says what the templates below need of the archives of a release.
type told struct {
	Version, Tag, Site, Description string
	Windows, WindowsArm             published // the second has no URL where it is not there
	MacArm, MacIntel                published
}

type published struct{ URL, Sum string }

// packages writes what package managers are told: of Windows winget and Scoop, of macOS Homebrew, each if its archives are
// there. They go to the repositories of those managers, once the release is at its address.
func (r *release) packages() error {
	m := told{Version: strings.TrimPrefix(r.version, "v"), Tag: r.version, Site: site, Description: description}
	windows, err := r.published(&m.Windows, "windows", "amd64", ".zip")
	if err != nil {
		return err
	}
	if _, err := r.published(&m.WindowsArm, "windows", "arm64", ".zip"); err != nil {
		return err
	}
	arm, err := r.published(&m.MacArm, "darwin", "arm64", ".tar.gz")
	if err != nil {
		return err
	}
	intel, err := r.published(&m.MacIntel, "darwin", "amd64", ".tar.gz")
	if err != nil {
		return err
	}
	var files []packageFile
	if windows {
		files = append(files, wingetFiles...)
		files = append(files, scoopFile)
	}
	if arm && intel {
		files = append(files, homebrewFile)
	}
	for _, f := range files {
		data, err := f.of(m)
		if err != nil {
			return err
		}
		name := filepath.Join(r.out, "packages", f.name)
		if err := os.MkdirAll(filepath.Dir(name), 0o755); err != nil {
			return err
		}
		if err := writeFile(name, data); err != nil {
			return err
		}
	}
	return r.sums()
}

// published finds an archive of this release, and whether it is there.
func (r *release) published(p *published, system, arch, ending string) (bool, error) {
	of := *r
	of.system, of.arch = system, arch
	data, err := os.ReadFile(of.name(ending))
	if os.IsNotExist(err) {
		return false, nil
	}
	*p = published{site + "/releases/download/" + r.version + "/" + filepath.Base(of.name(ending)), digest(data)}
	return err == nil, err
}

// A packageFile is a text of a package manager. That of Scoop is JSON and has no template.
type packageFile struct {
	name, text string
}

func (f packageFile) of(m told) ([]byte, error) {
	if f.text == "" {
		return scoop(m)
	}
	t, err := template.New(f.name).Funcs(template.FuncMap{"upper": strings.ToUpper}).Parse(f.text)
	if err != nil {
		return nil, err
	}
	var b bytes.Buffer
	err = t.Execute(&b, m)
	return b.Bytes(), err
}

// https://github.com/microsoft/winget-cli/tree/master/schemas/JSON/manifests/v1.6.0
var wingetFiles = []packageFile{
	{"winget/Quern.Quern.yaml", `# yaml-language-server: $schema=https://aka.ms/winget-manifest.version.1.6.0.schema.json
PackageIdentifier: Quern.Quern
PackageVersion: "{{.Version}}"
DefaultLocale: en-US
ManifestType: version
ManifestVersion: 1.6.0
`},
	{"winget/Quern.Quern.installer.yaml", `# yaml-language-server: $schema=https://aka.ms/winget-manifest.installer.1.6.0.schema.json
PackageIdentifier: Quern.Quern
PackageVersion: "{{.Version}}"
InstallerType: zip
NestedInstallerType: portable
NestedInstallerFiles:
- RelativeFilePath: quern.exe
  PortableCommandAlias: quern
MinimumOSVersion: 10.0.0.0
Installers:
- Architecture: x64
  InstallerUrl: {{.Windows.URL}}
  InstallerSha256: {{upper .Windows.Sum}}
{{- with .WindowsArm}}{{if .URL}}
- Architecture: arm64
  InstallerUrl: {{.URL}}
  InstallerSha256: {{upper .Sum}}
{{- end}}{{end}}
ManifestType: installer
ManifestVersion: 1.6.0
`},
	{"winget/Quern.Quern.locale.en-US.yaml", `# yaml-language-server: $schema=https://aka.ms/winget-manifest.defaultLocale.1.6.0.schema.json
PackageIdentifier: Quern.Quern
PackageVersion: "{{.Version}}"
PackageLocale: en-US
Publisher: Quern
PackageName: Quern
PackageUrl: {{.Site}}
License: Apache-2.0
LicenseUrl: {{.Site}}/blob/{{.Tag}}/LICENSE
ShortDescription: "{{.Description}}"
ManifestType: defaultLocale
ManifestVersion: 1.6.0
`},
}

var scoopFile = packageFile{name: "scoop/quern.json"}

// scoop is https://github.com/ScoopInstaller/Scoop/wiki/App-Manifests
func scoop(m told) ([]byte, error) {
	type download struct {
		URL  string `json:"url"`
		Hash string `json:"hash"`
	}
	programs := map[string]download{"64bit": {m.Windows.URL, m.Windows.Sum}}
	if m.WindowsArm.URL != "" {
		programs["arm64"] = download{m.WindowsArm.URL, m.WindowsArm.Sum}
	}
	b, err := json.MarshalIndent(struct {
		Version      string              `json:"version"`
		Description  string              `json:"description"`
		Homepage     string              `json:"homepage"`
		License      string              `json:"license"`
		Architecture map[string]download `json:"architecture"`
		Bin          string              `json:"bin"`
		CheckVersion string              `json:"checkver"`
	}{
		m.Version, m.Description, m.Site, "Apache-2.0",
		programs, "quern.exe", "github",
	}, "", "    ")
	if err != nil {
		return nil, fmt.Errorf("scoop: %w", err)
	}
	return append(b, '\n'), nil
}

// https://docs.brew.sh/Formula-Cookbook
var homebrewFile = packageFile{"homebrew/quern.rb", `class Quern < Formula
  desc "Runs large language models on CPUs"
  homepage "{{.Site}}"
  version "{{.Version}}"
  license "Apache-2.0"

  depends_on :macos

  on_arm do
    url "{{.MacArm.URL}}"
    sha256 "{{.MacArm.Sum}}"
  end
  on_intel do
    url "{{.MacIntel.URL}}"
    sha256 "{{.MacIntel.Sum}}"
  end

  def install
    bin.install "bin/quern"
    man1.install Dir["share/man/man1/*.1"]
    bash_completion.install "share/completions/quern.bash" => "quern"
    zsh_completion.install "share/completions/_quern"
    fish_completion.install "share/completions/quern.fish"
  end

  test do
    system bin/"quern", "verify"
  end
end
`}
