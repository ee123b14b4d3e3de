package main

import (
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"strings"
)

// multiArch writes the images that are there as one archive: an OCI layout whose one image is an index of them, of which an
// engine or a registry's client takes that of its processor.
func (r *release) multiArch() error {
	images, err := filepath.Glob(filepath.Join(r.out, fmt.Sprintf("quern-%s-linux-*.image.tar", r.version)))
	if err != nil {
		return err
	}
	if len(images) == 0 {
		return fmt.Errorf("there is no image of version %q in %s", r.version, r.out)
	}
	var t tree
	all := index{Schema: 2, MediaType: typeIndex}
	for _, name := range images {
		b, err := os.ReadFile(name)
		if err != nil {
			return err
		}
		files, err := untar(bytes.NewReader(b))
		if err != nil {
			return fmt.Errorf("%s: %w", name, err)
		}
		var one index
		if err := json.Unmarshal(files["index.json"], &one); err != nil || len(one.Manifests) != 1 || one.Manifests[0].Platform == nil {
			return fmt.Errorf("%s is no image: %w", name, errors.Join(err, errors.New("want one manifest, with its platform")))
		}
		m := one.Manifests[0]
		m.Annotations = nil // names are of the whole
		all.Manifests = append(all.Manifests, m)
		for path, data := range files {
			if strings.HasPrefix(path, "blobs/") {
				t.add(path, 0o644, data)
			}
		}
	}
	b, err := json.Marshal(all)
	if err != nil {
		return err
	}
	whole := descriptor{
		MediaType: typeIndex, Digest: "sha256:" + digest(b), Size: len(b),
		Annotations: map[string]string{"org.opencontainers.image.ref.name": r.version, "io.containerd.image.name": "docker.io/library/quern:" + r.version},
	}
	t.add("blobs/sha256/"+digest(b), 0o644, b)
	for name, v := range map[string]any{
		"oci-layout": map[string]string{"imageLayoutVersion": "1.0.0"},
		"index.json": index{2, typeIndex, []descriptor{whole}},
	} {
		b, err := json.Marshal(v)
		if err != nil {
			return err
		}
		t.add(name, 0o644, b)
	}
	if b, err = t.tar(r.time); err != nil {
		return err
	}
	if err := writeFile(filepath.Join(r.out, fmt.Sprintf("quern-%s-linux.image.tar", r.version)), b); err != nil {
		return err
	}
	return r.sums()
}
