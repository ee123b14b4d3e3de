package main

import (
	"archive/tar"
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"syscall"
	"time"

	"github.com/klauspost/compress/zstd"
)

// check reads an image as a container engine does, unpacks it, and runs what it would run: the server
// with the environment of the image, and the health check against it.
func (r *release) check() error {
	f, err := os.ReadFile(r.name(".image.tar"))
	if err != nil {
		return err
	}
	files, err := untar(bytes.NewReader(f))
	if err != nil {
		return err
	}
	config, layer, err := readImage(files)
	if err != nil {
		return err
	}
	if int64(len(layer)) > r.maxImage {
		return fmt.Errorf("the image has %d bytes compressed, want at most %d", len(layer), r.maxImage)
	}
	z, err := zstd.NewReader(bytes.NewReader(layer))
	if err != nil {
		return err
	}
	defer z.Close()
	plain, err := io.ReadAll(z)
	if err != nil {
		return err
	}
	if got := "sha256:" + digest(plain); !slices.Equal(config.RootFS.DiffIDs, []string{got}) {
		return fmt.Errorf("the layer is %s, the configuration says %v", got, config.RootFS.DiffIDs)
	}
	root, err := untar(bytes.NewReader(plain))
	if err != nil {
		return err
	}
	for _, name := range append([]string{"quern", "etc/passwd", "etc/ssl/certs/ca-certificates.crt"}, folders...) {
		if _, ok := root[name]; !ok {
			return fmt.Errorf("the image has no %s", name)
		}
	}
	if err := checkTags(files["manifest.json"]); err != nil {
		return err
	}
	if user, _, _ := strings.Cut(config.Config.User, ":"); user == "" || user == "0" || user == "root" {
		return fmt.Errorf("the image runs as %q", config.Config.User)
	}
	dir, err := os.MkdirTemp("", "quern-image-")
	if err != nil {
		return err
	}
	defer os.RemoveAll(dir)
	t := tree{}
	for name, data := range root {
		mode := fs.FileMode(0o644)
		if name == "quern" {
			mode = 0o755
		}
		t.add(name, mode, data)
	}
	if err := t.unpack(dir); err != nil {
		return err
	}
	if err := serve(dir, config.Config); err != nil {
		return err
	}
	fmt.Printf("%s: %d bytes compressed; the server starts and is healthy\n", r.name(".image.tar"), len(layer))
	return nil
}

// checkTags returns an error unless `docker load` makes the tag that the files of scripts/deploy name.
func checkTags(b []byte) error {
	var m []dockerManifest
	if err := json.Unmarshal(b, &m); err != nil || len(m) != 1 {
		return fmt.Errorf("manifest.json: %d images; %w", len(m), err)
	}
	if !slices.Contains(m[0].RepoTags, "quern:latest") {
		return fmt.Errorf("the image is tagged %v, want quern:latest among them", m[0].RepoTags)
	}
	return nil
}

// untar returns the files of an archive; folders are empty and end in a slash.
func untar(r io.Reader) (map[string][]byte, error) {
	files := map[string][]byte{}
	for t := tar.NewReader(r); ; {
		h, err := t.Next()
		if err == io.EOF {
			return files, nil
		}
		if err != nil {
			return nil, err
		}
		if files[h.Name], err = io.ReadAll(t); err != nil {
			return nil, err
		}
	}
}

// readImage follows an image from its index to its layer, and checks each digest.
func readImage(files map[string][]byte) (configuration, []byte, error) {
	var c configuration
	blob := func(d descriptor) ([]byte, error) {
		b, ok := files["blobs/sha256/"+strings.TrimPrefix(d.Digest, "sha256:")]
		if !ok || len(b) != d.Size || "sha256:"+digest(b) != d.Digest {
			return nil, fmt.Errorf("blob %s of %d bytes: %d are there, or others", d.Digest, d.Size, len(b))
		}
		return b, nil
	}
	object := func(d descriptor, v any) error {
		b, err := blob(d)
		if err != nil {
			return err
		}
		return json.Unmarshal(b, v)
	}
	var i index
	if err := json.Unmarshal(files["index.json"], &i); err != nil || len(i.Manifests) != 1 {
		return c, nil, fmt.Errorf("index.json: %d manifests; %w", len(i.Manifests), err)
	}
	var m manifest
	if err := object(i.Manifests[0], &m); err != nil {
		return c, nil, err
	}
	if err := object(m.Config, &c); err != nil {
		return c, nil, err
	}
	if len(m.Layers) != 1 {
		return c, nil, fmt.Errorf("%d layers, want one", len(m.Layers))
	}
	layer, err := blob(m.Layers[0])
	return c, layer, err
}

// serve starts what the image starts, at a socket of its own, and waits until the image's health check succeeds.
func serve(dir string, c settings) error {
	env := slices.DeleteFunc(slices.Clone(c.Env), func(e string) bool { return strings.HasPrefix(e, "QUERN_HOST=") })
	env = append(env, "QUERN_HOST="+filepath.Join(dir, "quern.sock"))
	ctx, stop := context.WithTimeout(context.Background(), time.Minute)
	defer stop()
	command := func(args []string) *exec.Cmd {
		cmd := exec.CommandContext(ctx, filepath.Join(dir, args[0]), args[1:]...)
		cmd.Env, cmd.Dir = env, filepath.Join(dir, c.WorkingDir)
		return cmd
	}
	var log bytes.Buffer
	server := command(append(slices.Clone(c.Entrypoint), c.Cmd...))
	server.Stderr = &log
	if err := server.Start(); err != nil {
		return err
	}
	ended := make(chan error, 1)
	go func() { ended <- server.Wait() }()
	healthy := errors.New("no time")
	for healthy != nil && ctx.Err() == nil {
		select {
		case err := <-ended:
			return fmt.Errorf("the server ended: %v\n%s", err, log.String())
		case <-time.After(50 * time.Millisecond):
			healthy = command(c.Healthcheck.Test[1:]).Run()
		}
	}
	if healthy != nil {
		server.Process.Kill()
		<-ended
		return fmt.Errorf("the server is not healthy after a minute: %v\n%s", healthy, log.String())
	}
	if err := server.Process.Signal(syscall.SIGTERM); err != nil {
		return err
	}
	return <-ended
}
