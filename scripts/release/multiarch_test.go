package main

import (
	"bytes"
	"encoding/json"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"
)

// One archive has the images of all architectures: each digest is that of a file in it, from the layout's one image down to
// the layers.
func TestMultiArch(t *testing.T) {
	dir := t.TempDir()
	program := filepath.Join(dir, "program")
	out := filepath.Join(dir, "dist")
	if err := os.Mkdir(out, 0o755); err != nil {
		t.Fatal(err)
	}
	r := release{binary: program, system: "linux", version: "v1.2.3", roots: program, out: out, time: time.Unix(0, 0).UTC(), maxImage: 1 << 20}
	if err := r.multiArch(); err == nil {
		t.Error("no image is an index of images")
	}
	for _, arch := range []string{"amd64", "arm64"} {
		if err := os.WriteFile(program, []byte("program for "+arch), 0o755); err != nil {
			t.Fatal(err)
		}
		r.arch = arch
		if err := r.image(); err != nil {
			t.Fatal(err)
		}
	}
	if err := r.multiArch(); err != nil {
		t.Fatal(err)
	}
	name := filepath.Join(out, "quern-v1.2.3-linux.image.tar")
	before, err := os.ReadFile(name)
	if err != nil {
		t.Fatal(err)
	}
	files, err := untar(bytes.NewReader(before))
	if err != nil {
		t.Fatal(err)
	}
	read := func(d descriptor, into any) {
		t.Helper()
		data, ok := files["blobs/sha256/"+strings.TrimPrefix(d.Digest, "sha256:")]
		if !ok || "sha256:"+digest(data) != d.Digest || len(data) != d.Size {
			t.Fatalf("%+v: %d bytes, %t", d, len(data), ok)
		}
		if into == nil {
			return
		}
		if err := json.Unmarshal(data, into); err != nil {
			t.Fatal(err)
		}
	}
	var top, all index
	if err := json.Unmarshal(files["index.json"], &top); err != nil || len(top.Manifests) != 1 || top.Manifests[0].MediaType != typeIndex {
		t.Fatalf("%v, %+v", err, top)
	}
	read(top.Manifests[0], &all)
	var found []string
	for _, d := range all.Manifests {
		var m manifest
		var c configuration
		read(d, &m)
		read(m.Config, &c)
		for _, l := range m.Layers {
			read(l, nil)
		}
		if d.Platform == nil || *d.Platform != c.platform {
			t.Errorf("the index says %+v, the image %+v", d.Platform, c.platform)
		}
		found = append(found, c.Architecture)
	}
	if got := strings.Join(found, " "); got != "amd64 arm64" {
		t.Errorf("images of %s", got)
	}
	if sums, err := os.ReadFile(filepath.Join(out, "SHA256SUMS")); err != nil || !strings.Contains(string(sums), "  quern-v1.2.3-linux.image.tar\n") {
		t.Errorf("%v, sums: %s", err, sums)
	}
	if err := r.multiArch(); err != nil {
		t.Fatal(err)
	}
	if after, err := os.ReadFile(name); err != nil || !bytes.Equal(after, before) {
		t.Errorf("%v, made again it has other bytes", err)
	}
	if err := os.WriteFile(filepath.Join(out, "quern-v1.2.3-linux-s390x.image.tar"), []byte("no archive"), 0o644); err != nil {
		t.Fatal(err)
	}
	if err := r.multiArch(); err == nil {
		t.Error("what is no archive is an image")
	}
}
