package main

import (
	"bytes"
	"debug/pe"
	"encoding/binary"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"
)

// What Go's own linker makes for Windows is in order, and what was changed after it is refused in one line that says what is wrong.
func TestPE(t *testing.T) {
	t.Parallel()
	dir := t.TempDir()
	for name, text := range map[string]string{"go.mod": "module m\n\ngo 1.26\n", "main.go": "package main\n\nfunc main() {}\n"} {
		if err := os.WriteFile(filepath.Join(dir, name), []byte(text), 0o644); err != nil {
			t.Fatal(err)
		}
	}
	build := exec.Command("go", "build", "-trimpath", "-ldflags=-s -w", "-o", "m.exe", ".")
	build.Dir, build.Env = dir, append(os.Environ(), "GOOS=windows", "GOARCH=arm64", "CGO_ENABLED=0", "GOFLAGS=", "GOWORK=off")
	if out, err := build.CombinedOutput(); err != nil {
		t.Fatalf("%v\n%s", err, out)
	}
	name := filepath.Join(dir, "m.exe")
	data, err := os.ReadFile(name)
	if err != nil {
		t.Fatal(err)
	}
	if err := checkPE(name, "arm64"); err != nil {
		t.Fatal(err)
	}

	le := binary.LittleEndian
	dated, linked := filepath.Join(dir, "dated.exe"), bytes.Clone(data)
	le.PutUint32(linked[le.Uint32(linked[60:])+8:], 1e9)
	if err := os.WriteFile(dated, linked, 0o755); err != nil {
		t.Fatal(err)
	}
	if err := undate(dated); err != nil {
		t.Fatal(err)
	}
	if got, err := os.ReadFile(dated); err != nil || !bytes.Equal(got, data) {
		t.Errorf("without a time it has other bytes than Go's linker made, %v", err)
	}

	head := int(le.Uint32(data[60:])) + 4 // of the file, then what is optional
	optional := head + 20
	section := optional + int(le.Uint16(data[head+16:]))
	library := bytes.Index(data, []byte("kernel32.dll\x00"))
	if library < 0 {
		t.Fatal("the program names no kernel32.dll")
	}
	for _, b := range []struct {
		what, arch string
		at         int
		put        []byte
		want       string
	}{
		{"another processor", "amd64", 0, nil, "processor 0xaa64"},
		{"no such system", "riscv64", 0, nil, "there is no Windows for riscv64"},
		{"not a program", "arm64", 0, []byte("MX"), ""},
		{"a library", "arm64", head + 18, le.AppendUint16(nil, pe.IMAGE_FILE_EXECUTABLE_IMAGE|pe.IMAGE_FILE_DLL), "no program"},
		{"without a console", "arm64", optional + 68, le.AppendUint16(nil, pe.IMAGE_SUBSYSTEM_WINDOWS_GUI), "subsystem 2"},
		{"a later Windows", "arm64", optional + 40, le.AppendUint16(nil, 11), "it wants Windows 11"},
		{"at one address", "arm64", optional + 70, le.AppendUint16(nil, pe.IMAGE_DLLCHARACTERISTICS_NX_COMPAT), "not to be loaded anywhere"},
		{"without relocations", "arm64", optional + 112 + 8*pe.IMAGE_DIRECTORY_ENTRY_BASERELOC + 4, make([]byte, 4), "not to be loaded anywhere"},
		{"an entry outside", "arm64", optional + 16, le.AppendUint32(nil, 1<<30), "where it has no code"},
		{"code that is written", "arm64", section + 36, le.AppendUint32(nil, pe.IMAGE_SCN_MEM_EXECUTE|pe.IMAGE_SCN_MEM_WRITE), "may be written"},
		{"another library", "arm64", library, []byte("kernel31.dll"), "it asks kernel31.dll for"},
	} {
		changed := bytes.Clone(data)
		copy(changed[b.at:], b.put)
		other := filepath.Join(dir, "other.exe")
		if err := os.WriteFile(other, changed, 0o644); err != nil {
			t.Fatal(err)
		}
		err := checkPE(other, b.arch)
		if err == nil || !strings.Contains(err.Error(), b.want) || strings.Contains(err.Error(), "\n") {
			t.Errorf("%s: %v, want %q", b.what, err, b.want)
		}
	}
}
