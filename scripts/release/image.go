package main

import (
	"encoding/json"
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"time"
)

// user is the numeric one that the program runs as in an image: nobody's on any host.
const user = 65532

// folders are empty ones that belong to user: a volume that an engine makes for one of them belongs to user as well.
var folders = []string{"models/", "batches/", "cache/", "tmp/"}

// The parts of an image, by the OCI image specification; the health check is Docker's addition.
type (
	descriptor struct {
		MediaType   string            `json:"mediaType"`
		Digest      string            `json:"digest"`
		Size        int               `json:"size"`
		Platform    *platform         `json:"platform,omitempty"`
		Annotations map[string]string `json:"annotations,omitempty"`
	}
	platform struct {
		Architecture string `json:"architecture"`
		OS           string `json:"os"`
	}
	manifest struct {
		Schema    int          `json:"schemaVersion"`
		MediaType string       `json:"mediaType"`
		Config    descriptor   `json:"config"`
		Layers    []descriptor `json:"layers"`
	}
	index struct {
		Schema    int          `json:"schemaVersion"`
		MediaType string       `json:"mediaType"`
		Manifests []descriptor `json:"manifests"`
	}
	configuration struct {
		platform
		Created time.Time `json:"created"`
		Config  settings  `json:"config"`
		RootFS  rootFS    `json:"rootfs"`
		History []history `json:"history"`
	}
	settings struct {
		User        string
		Env         []string
		Entrypoint  []string
		Cmd         []string
		WorkingDir  string
		Ports       map[string]struct{} `json:"ExposedPorts"`
		Volumes     map[string]struct{}
		Labels      map[string]string
		StopSignal  string
		Healthcheck healthcheck
	}
	healthcheck struct {
		Test                           []string
		Interval, Timeout, StartPeriod time.Duration
		Retries                        int
	}
	rootFS struct {
		Type    string   `json:"type"`
		DiffIDs []string `json:"diff_ids"`
	}
	history struct {
		Created   time.Time `json:"created"`
		CreatedBy string    `json:"created_by"`
	}
	dockerManifest struct { // for `docker load` before OCI layouts
		Config   string
		RepoTags []string
		Layers   []string
	}
)

const (
	typeIndex    = "application/vnd.oci.image.index.v1+json"
	typeManifest = "application/vnd.oci.image.manifest.v1+json"
	typeConfig   = "application/vnd.oci.image.config.v1+json"
	typeLayer    = "application/vnd.oci.image.layer.v1.tar+zstd"
)

// root returns what the image has in it.
func (r *release) root() (*tree, error) {
	t := &tree{}
	if err := t.addFile("quern", r.binary, 0o755); err != nil {
		return nil, err
	}
	if err := t.addFile("etc/ssl/certs/ca-certificates.crt", r.roots, 0o644); err != nil {
		return nil, fmt.Errorf("%w: the image needs certificate authorities; install ca-certificates, or name a file with -roots", err)
	}
	t.add("etc/passwd", 0o644, fmt.Appendf(nil, "quern:x:%d:%d:quern:/models:/quern\n", user, user))
	t.add("etc/group", 0o644, fmt.Appendf(nil, "quern:x:%d:\n", user))
	for _, name := range folders {
		t.entries = append(t.entries, entry{name: name, mode: 0o755, owner: user})
	}
	return t, nil
}

// settings are those of the Dockerfile.
func (r *release) settings() settings {
	return settings{
		User: fmt.Sprintf("%d:%d", user, user), Env: []string{"HOME=/models", "QUERN_HOST=0.0.0.0", "QUERN_PORT=8080"},
		Entrypoint: []string{"/quern"}, Cmd: []string{"serve"}, WorkingDir: "/models", StopSignal: "SIGTERM",
		Ports: map[string]struct{}{"8080/tcp": {}}, Volumes: map[string]struct{}{"/models": {}},
		Labels: map[string]string{
			"org.opencontainers.image.title": "quern", "org.opencontainers.image.version": r.version,
			"org.opencontainers.image.description": "Runs GGUF language models on CPUs", "org.opencontainers.image.source": "https://github.com/quern-llm/quern",
		},
		Healthcheck: healthcheck{Test: []string{"CMD", "/quern", "health"}, Interval: 10 * time.Second, Timeout: 3 * time.Second, StartPeriod: 2 * time.Minute, Retries: 3},
	}
}

// image writes the image as an archive that `docker load` and `podman load` take, and its files for the Dockerfile.
func (r *release) image() error {
	root, err := r.root()
	if err != nil {
		return err
	}
	plain, layer, err := root.layer(r.time)
	if err != nil {
		return err
	}
	if n := int64(len(layer)); n > r.maxImage {
		return fmt.Errorf("the image has %d bytes compressed, want at most %d; see the table of weights in docs/operations/README.md", n, r.maxImage)
	}
	var t tree
	blob := func(mediaType string, b []byte) descriptor {
		d := digest(b)
		t.add("blobs/sha256/"+d, 0o644, b)
		return descriptor{MediaType: mediaType, Digest: "sha256:" + d, Size: len(b)}
	}
	object := func(mediaType string, v any) (descriptor, error) {
		b, err := json.Marshal(v)
		return blob(mediaType, b), err
	}
	p := platform{r.arch, "linux"}
	config, err := object(typeConfig, configuration{p, r.time, r.settings(), rootFS{"layers", []string{"sha256:" + digest(plain)}}, []history{{r.time, "scripts/release"}}})
	if err != nil {
		return err
	}
	m := manifest{2, typeManifest, config, []descriptor{blob(typeLayer, layer)}}
	whole, err := object(typeManifest, m)
	if err != nil {
		return err
	}
	tag, latest := "quern:"+r.version, "quern:latest" // the latter is what Compose and Kubernetes are told
	whole.Platform, whole.Annotations = &p, map[string]string{"org.opencontainers.image.ref.name": r.version, "io.containerd.image.name": "docker.io/library/" + tag}
	path := func(d descriptor) string { return "blobs/sha256/" + strings.TrimPrefix(d.Digest, "sha256:") }
	for name, v := range map[string]any{
		"oci-layout":    map[string]string{"imageLayoutVersion": "1.0.0"},
		"index.json":    index{2, typeIndex, []descriptor{whole}},
		"manifest.json": []dockerManifest{{path(config), []string{tag, latest}, []string{path(m.Layers[0])}}},
	} {
		b, err := json.Marshal(v)
		if err != nil {
			return err
		}
		t.add(name, 0o644, b)
	}
	b, err := t.tar(r.time)
	if err != nil {
		return err
	}
	if err := writeFile(r.name(".image.tar"), b); err != nil {
		return err
	}
	return root.unpack(filepath.Join(r.out, "root-"+r.arch))
}

// unpack writes the tree into a folder, in place of what was there.
func (t *tree) unpack(dir string) error {
	if err := os.RemoveAll(dir); err != nil {
		return err
	}
	for _, e := range t.all() {
		name := filepath.Join(dir, filepath.FromSlash(e.name))
		if strings.HasSuffix(e.name, "/") {
			if err := os.MkdirAll(name, e.mode); err != nil {
				return err
			}
			continue
		}
		if err := os.MkdirAll(filepath.Dir(name), 0o755); err != nil {
			return err
		}
		if err := os.WriteFile(name, e.data, e.mode); err != nil {
			return err
		}
	}
	return nil
}
