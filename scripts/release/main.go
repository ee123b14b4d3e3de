// Command release puts a built program into what is published: an archive with its man pages and
// completions, a bill of materials, for Linux a container image, and their checksums; and at the end what package managers
// of Windows and macOS are told of it. A program for these is looked at first.
//
//	go run ./scripts/release -binary bin/quern -arch amd64 -version v0.1.0 -docs build/release -out dist
//	go run ./scripts/release -binary build-windows-amd64/quern.exe -system windows -version v0.1.0 -docs build/release -out dist
//	go run ./scripts/release -binary build-darwin-arm64/quern -system darwin -arch arm64 -stubs ... -version v0.1.0 -docs build/release
//	go run ./scripts/release -packages -version v0.1.0 -out dist
//	go run ./scripts/release -index -version v0.1.0 -out dist
//
// With the same inputs it writes the same bytes: times are those of SOURCE_DATE_EPOCH, or 1970.
package main

import (
	"crypto/sha256"
	"encoding/hex"
	"flag"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"strconv"
	"strings"
	"time"
)

// A release is what is published for one architecture.
type release struct {
	binary, system, arch, version string
	docs                          string // folder with man/ and completions/
	roots                         string // PEM file of certificate authorities
	stubs                         string // folders of stubs of macOS's libraries, with commas between
	out                           string
	time                          time.Time
	maxImage                      int64
}

func main() {
	r := release{time: time.Unix(0, 0).UTC()}
	flag.StringVar(&r.binary, "binary", "", "`program` to publish")
	flag.StringVar(&r.system, "system", "linux", "its system, as Go names it")
	flag.StringVar(&r.arch, "arch", "amd64", "its architecture, as Go names it")
	flag.StringVar(&r.version, "version", "", "its version")
	flag.StringVar(&r.docs, "docs", "", "`folder` with man/ and completions/; none: no archive is written")
	flag.StringVar(&r.roots, "roots", "/etc/ssl/certs/ca-certificates.crt", "`file` of the certificate authorities in the image")
	flag.StringVar(&r.out, "out", "dist", "`folder` to write into")
	flag.Int64Var(&r.maxImage, "max-image", 20_000_000, "compressed `bytes` that an image may have")
	flag.StringVar(&r.stubs, "stubs", "scripts/release/macos", "`folders` of text stubs of macOS's libraries, with commas between")
	check := flag.Bool("check", false, "unpack the image that is there and run its program")
	packages := flag.Bool("packages", false, "write the manifests of winget, Scoop and Homebrew for the archives that are there")
	index := flag.Bool("index", false, "write the images that are there as one of several architectures")
	machO := flag.String("mach-o", "", "look at this `program` for macOS, which cannot be run here, and write nothing")
	exe := flag.String("pe", "", "look at this `program` for Windows, and write nothing")
	linked := flag.String("undate", "", "take out of this `program` for Windows when it was linked")
	flag.Parse()
	if s, err := strconv.ParseInt(os.Getenv("SOURCE_DATE_EPOCH"), 10, 64); err == nil {
		r.time = time.Unix(s, 0).UTC()
	}
	run := r.write
	switch {
	case *check:
		run = r.check
	case *packages:
		run = r.packages
	case *index:
		run = r.multiArch
	case *machO != "":
		r.binary, run = *machO, r.lookAtMac
	case *linked != "":
		run = func() error { return undate(*linked) }
	case *exe != "":
		run = func() error { return checkPE(*exe, r.arch) }
	}
	if err := run(); err != nil {
		fmt.Fprintf(os.Stderr, "release: %v\n", err)
		os.Exit(1)
	}
}

// name returns the path of what is published under an ending.
func (r *release) name(ending string) string {
	return filepath.Join(r.out, fmt.Sprintf("quern-%s-%s-%s%s", r.version, r.system, r.arch, ending))
}

func (r *release) write() error {
	if r.binary == "" || r.version == "" {
		return fmt.Errorf("want -binary and -version")
	}
	switch r.system {
	case "darwin":
		if err := r.lookAtMac(); err != nil {
			return err
		}
	case "windows":
		if err := checkPE(r.binary, r.arch); err != nil {
			return err
		}
	}
	if err := os.MkdirAll(r.out, 0o755); err != nil {
		return err
	}
	if err := r.billOfMaterials(); err != nil {
		return err
	}
	if r.docs != "" {
		if err := r.archive(); err != nil {
			return err
		}
	}
	if r.system == "linux" {
		if err := r.image(); err != nil {
			return err
		}
	}
	if err := r.comesFrom(); err != nil {
		return err
	}
	return r.sums()
}

// lookAtMac looks at the program for macOS.
func (r *release) lookAtMac() error {
	s, err := readStubs(strings.Split(r.stubs, ",")...)
	if err != nil {
		return err
	}
	return checkMachO(r.binary, r.arch, s)
}

// comesFrom writes where this release comes from.
func (r *release) comesFrom() error {
	own, err := filepath.Glob(r.name(".*"))
	if err != nil {
		return err
	}
	var files []subject
	for _, name := range own {
		data, err := os.ReadFile(name)
		if err != nil {
			return err
		}
		if name != r.name(".provenance.json") {
			files = append(files, subject{filepath.Base(name), map[string]string{"sha256": digest(data)}})
		}
	}
	return r.provenance(files, os.Getenv("QUERN_BUILDER"))
}

// sums writes the checksums of all files in the folder: those of the packages are in folders below.
func (r *release) sums() error {
	var b strings.Builder
	for _, pattern := range []string{"quern-*", "packages/*/*"} {
		names, err := filepath.Glob(filepath.Join(r.out, pattern))
		if err != nil {
			return err
		}
		for _, name := range names {
			data, err := os.ReadFile(name)
			if err != nil {
				return err
			}
			rel, err := filepath.Rel(r.out, name)
			if err != nil {
				return err
			}
			fmt.Fprintf(&b, "%s  %s\n", digest(data), filepath.ToSlash(rel))
		}
	}
	return writeFile(filepath.Join(r.out, "SHA256SUMS"), []byte(b.String()))
}

func digest(b []byte) string {
	sum := sha256.Sum256(b)
	return hex.EncodeToString(sum[:])
}

// writeFile replaces a file at once, and says so.
func writeFile(name string, data []byte) error {
	if err := os.WriteFile(name+".tmp", data, 0o644); err != nil {
		return err
	}
	fmt.Printf("%9d  %s\n", len(data), name)
	return os.Rename(name+".tmp", name)
}

// archive writes the program with what is installed beside it.
func (r *release) archive() error {
	var t tree
	top := fmt.Sprintf("quern-%s/", r.version)
	beside := []string{"LICENSE", "README.md"}
	program := top + "bin/quern"
	switch r.system {
	case "linux":
		beside = append(beside, "scripts/deploy/quern.service", "scripts/deploy/quern.socket")
	case "windows":
		top, program = "", "quern.exe"
	}
	if err := t.addFile(program, r.binary, 0o755); err != nil {
		return err
	}
	for _, name := range beside {
		if err := t.addFile(top+filepath.Base(name), name, 0o644); err != nil {
			return err
		}
	}
	if err := t.addFile(top+"LICENCES.txt", r.name(".licences.txt"), 0o644); err != nil {
		return err
	}
	if r.system == "windows" { // which has neither man nor these shells
		packed, err := t.zip(r.time)
		if err != nil {
			return err
		}
		return writeFile(r.name(".zip"), packed)
	}
	err := filepath.WalkDir(r.docs, func(path string, d fs.DirEntry, err error) error {
		if err != nil || d.IsDir() {
			return err
		}
		rel, err := filepath.Rel(r.docs, path)
		if err != nil {
			return err
		}
		return t.addFile(top+"share/"+filepath.ToSlash(rel), path, 0o644)
	})
	if err != nil {
		return err
	}
	packed, err := t.gzipped(r.time)
	if err != nil {
		return err
	}
	return writeFile(r.name(".tar.gz"), packed)
}
