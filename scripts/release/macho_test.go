package main

import (
	"bytes"
	"debug/macho"
	"encoding/binary"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"testing"
)

// macProgram is a program for macOS as Go's own linker makes and signs it, with the names that it asks for.
func macProgram(t *testing.T, arch string) (data []byte, asks []string) {
	t.Helper()
	dir := t.TempDir()
	for name, text := range map[string]string{"go.mod": "module m\n\ngo 1.26\n", "main.go": "package main\n\nfunc main() {}\n"} {
		if err := os.WriteFile(filepath.Join(dir, name), []byte(text), 0o644); err != nil {
			t.Fatal(err)
		}
	}
	build := exec.Command("go", "build", "-trimpath", "-ldflags=-s -w", "-o", "m", ".")
	build.Dir, build.Env = dir, append(os.Environ(), "GOOS=darwin", "GOARCH="+arch, "CGO_ENABLED=0", "GOFLAGS=", "GOWORK=off")
	if out, err := build.CombinedOutput(); err != nil {
		t.Fatalf("%v\n%s", err, out)
	}
	data, err := os.ReadFile(filepath.Join(dir, "m"))
	if err != nil {
		t.Fatal(err)
	}
	f, err := macho.NewFile(bytes.NewReader(data))
	if err != nil {
		t.Fatal(err)
	}
	if asks, err = f.ImportedSymbols(); err != nil || len(asks) == 0 {
		t.Fatalf("%d names, %v", len(asks), err)
	}
	return data, asks
}

// stubOf is a library of macOS with these names.
func stubOf(t *testing.T, names []string) stubs {
	t.Helper()
	dir := t.TempDir()
	text := "--- !tapi-tbd\ntbd-version: 4\ntargets: [ arm64e-macos ]\ninstall-name: '/usr/lib/libSystem.B.dylib'\n--- !tapi-tbd\n" +
		"install-name: '/usr/lib/system/part.dylib'\nexports:\n  - targets: [ x86_64-macos,\n    arm64e-macos ]\n    symbols: [ '" +
		strings.Join(names, "',\n      ") + " ]\n  - targets: [ x86_64-macos ]\n    weak-symbols: [ _intel ]\n"
	if err := os.WriteFile(filepath.Join(dir, "libSystem.tbd"), []byte(text), 0o644); err != nil {
		t.Fatal(err)
	}
	s, err := readStubs(dir)
	if err != nil {
		t.Fatal(err)
	}
	if e := s["/usr/lib/libSystem.B.dylib"]; len(s) != 1 || e.has("_intel", "arm64") || !e.has("_intel", "amd64") {
		t.Fatalf("%d libraries: %v", len(s), e["_intel"])
	}
	return s
}

// What Go's linker makes is in order, and what was changed after it is refused in one line that says what is wrong.
func TestMachO(t *testing.T) {
	t.Parallel()
	data, asks := macProgram(t, "arm64")
	all := stubOf(t, asks)
	f, err := macho.NewFile(bytes.NewReader(data))
	if err != nil {
		t.Fatal(err)
	}
	// offset of a load command in the file
	find := func(kind uint32) int {
		at := 32
		for _, l := range f.Loads {
			if binary.LittleEndian.Uint32(l.Raw()) == kind {
				return at
			}
			at += len(l.Raw())
		}
		t.Fatalf("no load command %#x", kind)
		return 0
	}
	signature := int(binary.LittleEndian.Uint32(data[find(codeSignature)+8:]))
	rebase := int(binary.LittleEndian.Uint32(data[find(dyldInfo)+8:]))
	put := func(at int, v uint32) func([]byte) []byte {
		return func(b []byte) []byte {
			binary.LittleEndian.PutUint32(b[at:], v)
			return b
		}
	}
	flip := func(at int) func([]byte) []byte {
		return func(b []byte) []byte {
			b[at] ^= 1
			return b
		}
	}
	for name, c := range map[string]struct {
		change func([]byte) []byte
		stubs  stubs
		arch   string
		want   string // of the error; empty: none
	}{
		"as it was linked":         {},
		"another architecture":     {arch: "amd64", want: "want a program for"},
		"no architecture":          {arch: "riscv64", want: "macOS has no riscv64"},
		"another file":             {change: func([]byte) []byte { return []byte("\x7fELF and more") }, want: "magic"},
		"an older macOS":           {change: put(find(buildVersion)+12, 11<<16), want: "version 0xb0000"},
		"another system":           {change: put(find(buildVersion)+8, 2), want: "platform 2"},
		"no version":               {change: put(find(buildVersion), 0x7f), want: "for which macOS"},
		"a byte of code":           {change: flip(int(f.Section("__text").Offset) + 9), want: "another page"},
		"the last byte of data":    {change: flip(signature - 1), want: "another page"},
		"a byte at the end":        {change: func(b []byte) []byte { return append(b, 0) }, want: "the file at"},
		"no signature":             {change: put(find(codeSignature), 0x7f), want: "not signed"},
		"another form":             {change: flip(signature), want: "no signature is where"},
		"no directory":             {change: flip(signature + 20), want: "no directory"},
		"not ad hoc":               {change: put(signature+20+12, 0), want: "ad hoc"},
		"a name too few":           {stubs: stubOf(t, asks[1:]), want: asks[0]},
		"addresses in the code":    {change: put(rebase, 0x21), want: "not to be written"},
		"other addresses":          {change: put(rebase, 0xf1), want: "its addresses have"},
		"a library without a stub": {stubs: stubs{}, want: "of which no stub says"},
	} {
		b := bytes.Clone(data)
		if c.change != nil {
			b = c.change(b)
		}
		if c.stubs == nil {
			c.stubs = all
		}
		if c.arch == "" {
			c.arch = "arm64"
		}
		file := filepath.Join(t.TempDir(), "program")
		if err := os.WriteFile(file, b, 0o755); err != nil {
			t.Fatal(err)
		}
		err := checkMachO(file, c.arch, c.stubs)
		if c.want == "" && err != nil || c.want != "" && (err == nil || !strings.Contains(err.Error(), c.want) || strings.Contains(err.Error(), "\n")) {
			t.Errorf("%s: %v, want %q", name, err, c.want)
		}
	}
	// No beginning of a program is taken for one, nor ends the tool.
	for n := 0; n < len(data); n += 1 + len(data)/50 {
		file := filepath.Join(t.TempDir(), "part")
		if err := os.WriteFile(file, data[:n], 0o755); err != nil {
			t.Fatal(err)
		}
		if err := checkMachO(file, "arm64", all); err == nil {
			t.Errorf("%d bytes of %d are a program", n, len(data))
		}
	}
}

// A name that is bound has the library that was set last; what is no code of binds is an error.
func TestBinds(t *testing.T) {
	t.Parallel()
	code := []byte("\x11\x40_a\x00\x51\x72\x80\x01\x90\x20\x81\x01\x40_b\x00\xa0\x08\x00\x30\x41_c\x00\xc0\x02\x08\xb1\x00")
	var got []bind
	for b, err := range binds(code) {
		if err != nil {
			t.Fatal(err)
		}
		got = append(got, b)
	}
	if want := []bind{{1, "_a"}, {129, "_b"}, {0, "_c"}, {0, "_c"}}; !slices.Equal(got, want) {
		t.Errorf("got %v, want %v", got, want)
	}
	for _, code := range []string{"\xd0", "\x40_a", "\x20", "\x20\xff\xff\xff\xff\x7f", "\x72", "\x72\x80", "\xc0\x01", "\xa0"} {
		var last error
		for _, err := range binds([]byte(code)) {
			last = err
		}
		if last == nil {
			t.Errorf("%q is in order", code)
		}
	}
}

// The stubs of this repository have what Go's library asks of macOS beside libSystem.
func TestStubsHaveWhatGoAsks(t *testing.T) {
	t.Parallel()
	have, err := readStubs("macos")
	if err != nil {
		t.Fatal(err)
	}
	root, err := exec.Command("go", "env", "GOROOT").Output()
	if err != nil {
		t.Fatal(err)
	}
	ask := regexp.MustCompile(`(?m)^//go:cgo_import_dynamic \S+ (\S+) "([^"]+)"`)
	n := 0
	for _, dir := range []string{"crypto/x509/internal/macos", "internal/syscall/unix"} {
		files, err := filepath.Glob(filepath.Join(strings.TrimSpace(string(root)), "src", dir, "*.go"))
		if err != nil {
			t.Fatal(err)
		}
		for _, file := range files {
			b, err := os.ReadFile(file)
			if err != nil {
				t.Fatal(err)
			}
			for _, m := range ask.FindAllStringSubmatch(string(b), -1) {
				name, library := "_"+m[1], m[2]
				if !strings.HasPrefix(library, "/") || library == "/usr/lib/libSystem.B.dylib" {
					continue
				}
				n++
				if !have[library].has(name, "arm64") || !have[library].has(name, "amd64") {
					t.Errorf("%s asks %s for %s: see that macOS 12 has it, and add it to its stub", filepath.Base(file), library, name)
				}
			}
		}
	}
	if n == 0 {
		t.Error("no names were found in Go's sources")
	}
}
