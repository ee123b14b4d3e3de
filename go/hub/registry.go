package hub

import (
	"cmp"
	"context"
	"crypto/sha256"
	"encoding/hex"
	"encoding/json"
	"errors"
	"fmt"
	"net"
	"net/http"
	"path"
	"slices"
	"strings"

	"golang.org/x/net/publicsuffix"
	"oras.land/oras-go/v2/registry/remote/auth"
	"oras.land/oras-go/v2/registry/remote/credentials"

	"github.com/quern-llm/quern/go/gguf"
	"github.com/quern-llm/quern/go/persona"
)

// manifestTypes lists the accepted media types of manifests.
var manifestTypes = []string{
	"application/vnd.oci.image.manifest.v1+json", "application/vnd.docker.distribution.manifest.v2+json",
	"application/vnd.oci.image.index.v1+json", "application/vnd.docker.distribution.manifest.list.v2+json",
}

const (
	maxManifest = 4 << 20
	maxLayers   = 1000
	titleKey    = "org.opencontainers.image.title"
)

type descriptor struct {
	MediaType   string            `json:"mediaType"`
	Digest      string            `json:"digest"`
	Size        int64             `json:"size"`
	Annotations map[string]string `json:"annotations"`
}

// A manifest of a registry lists layers, or manifests.
type registryManifest struct {
	Layers    []descriptor `json:"layers"`
	Manifests []descriptor `json:"manifests"`
}

func parseManifest(body []byte) (*registryManifest, error) {
	var m registryManifest
	if err := json.Unmarshal(body, &m); err != nil {
		return nil, errors.New("the manifest is no JSON of the form that is expected")
	}
	if n := len(m.Layers) + len(m.Manifests); n > maxLayers {
		return nil, fmt.Errorf("the manifest has %d entries, want at most %d", n, maxLayers)
	}
	return &m, nil
}

// weights returns the layers that are GGUF files of the model, in order, and its projector behind them, if there is one.
func (m *registryManifest) weights(fallback string) ([]File, error) {
	var files, projectors []File
	for _, d := range m.Layers {
		title := d.Annotations[titleKey]
		kind := strings.ToLower(d.MediaType)
		encodes := false
		switch {
		case kind == "application/vnd.ollama.image.model":
		case strings.Contains(kind, "mmproj"), strings.Contains(kind, "projector"), strings.Contains(strings.ToLower(title), "mmproj"):
			encodes = true
		case strings.Contains(kind, "gguf"), strings.HasSuffix(title, ".gguf"):
		default:
			continue
		}
		sum, ok := strings.CutPrefix(d.Digest, "sha256:")
		if !ok {
			return nil, fmt.Errorf("the digest %.80q, want sha256", d.Digest)
		}
		f := File{Path: title, Size: d.Size, SHA256: sum}
		if title == "" || !strings.HasSuffix(title, ".gguf") {
			f.Path = fallback
		}
		if encodes {
			if !gguf.IsProjector(f.Path) {
				f.Path = "mmproj-" + f.Path
			}
			projectors = append(projectors, f)
			continue
		}
		files = append(files, f)
	}
	if len(files) == 0 {
		return nil, errors.New("the manifest has no GGUF file")
	}
	if len(files) > 1 { // either the shards of one model, or one has to be chosen
		g := groups(files)
		if len(g) != 1 {
			return nil, fmt.Errorf("the manifest has %d models, want one", len(g))
		}
		if err := g[0].complete(); err != nil {
			return nil, err
		}
		files = g[0].files
	}
	if f := projectorOf(projectors, "."); f != nil {
		files = append(slices.Clone(files), *f)
	}
	return files, nil
}

// resolveOllama finds the file of a model in Ollama's registry, and the settings that come with it.
func (h *Hub) resolveOllama(ctx context.Context, r Ref) (*Plan, error) {
	p, m, err := h.resolveRegistry(ctx, r, h.c.Ollama, h.http)
	if err != nil {
		return nil, err
	}
	p.Persona, p.Skipped, err = h.settings(ctx, m, h.c.Ollama+"/v2/"+r.Repo+"/blobs/")
	return p, err
}

// settings fetches the system prompt, the parameters and the example turns of a manifest, whose layers are below an
// address; nil if it has none. What is not of their form is skipped, with the reasons: the model does without. Templates
// are not fetched: the model's file has its own.
func (h *Hub) settings(ctx context.Context, m *registryManifest, blobs string) (*persona.Persona, string, error) {
	var p persona.Persona
	var why []string
	for _, d := range m.Layers {
		kind, ours := strings.CutPrefix(strings.ToLower(d.MediaType), "application/vnd.ollama.image.")
		if !ours || kind != "system" && kind != "params" && kind != "messages" {
			continue
		}
		if d.Size > persona.MaxBytes {
			why = append(why, fmt.Sprintf("its layer %s has %d bytes, want at most %d", kind, d.Size, persona.MaxBytes))
			continue
		}
		b, err := h.layer(ctx, d, blobs)
		if err != nil {
			return nil, "", fmt.Errorf("its layer %s: %w", kind, err)
		}
		switch kind {
		case "system":
			p.System = string(b)
		case "params":
			err = json.Unmarshal(b, &p.Parameters)
		case "messages":
			if err = json.Unmarshal(b, &p.Messages); err != nil {
				p.Messages = nil // those before the odd one
			}
		}
		if err != nil {
			why = append(why, fmt.Sprintf("its layer %s is no JSON of the form that is expected", kind))
		}
	}
	why = append(why, p.DropInvalid()...)
	if p.Empty() {
		return nil, skipped(why), nil
	}
	return &p, skipped(why), nil
}

// maxReasons is how many reasons a line has.
const maxReasons = 4

// skipped returns the line that says why settings are left out; empty if none are.
func skipped(why []string) string {
	if len(why) == 0 {
		return ""
	}
	more := ""
	if n := len(why) - maxReasons; n > 0 {
		why, more = why[:maxReasons], fmt.Sprintf("; and %d more", n)
	}
	return "settings that came with it are left out: " + strings.Join(why, "; ") + more
}

// layer fetches a small layer.
func (h *Hub) layer(ctx context.Context, d descriptor, blobs string) ([]byte, error) {
	want := strings.TrimPrefix(d.Digest, "sha256:")
	if err := checkSum(want); err != nil {
		return nil, err
	}
	b, err := h.get(ctx, h.http, blobs+"sha256:"+want, nil, persona.MaxBytes)
	if err != nil {
		return nil, err
	}
	if sum := sha256.Sum256(b); hex.EncodeToString(sum[:]) != want {
		return nil, fmt.Errorf("the sha256 is %x, want %s", sum, want)
	}
	return b, nil
}

// resolveOCI finds the files of a model in a registry, with the credentials stored by docker login.
func (h *Hub) resolveOCI(ctx context.Context, r Ref) (*Plan, error) {
	host, repo := r.Host, r.Repo
	if host == "docker.io" {
		if host = "registry-1.docker.io"; !strings.Contains(repo, "/") {
			repo = "library/" + repo
		}
	}
	scheme := "https://"
	if name, _, err := net.SplitHostPort(host); err == nil && (name == "localhost" || net.ParseIP(name).IsLoopback()) {
		scheme = "http://" // as other clients of registries do
	}
	guarded := *h.http
	guarded.Transport = loginGuard{host, cmp.Or(guarded.Transport, http.DefaultTransport)}
	client := &auth.Client{Client: &guarded, Cache: auth.NewCache()}
	if store, err := credentials.NewStoreFromDocker(credentials.StoreOptions{}); err == nil {
		client.Credential = credentials.Credential(store)
	}
	at := r
	at.Repo = repo
	p, _, err := h.resolveRegistry(ctx, at, scheme+host, &reader{client, host, "repository:" + repo + ":pull"})
	if p != nil {
		p.Ref = r
	}
	return p, err
}

// A loginGuard refuses to send the login for a registry to a server of others. The registry says where its tokens are had:
// one that is not honest could have the login sent anywhere.
type loginGuard struct {
	registry string // host, and port if any
	next     http.RoundTripper
}

func (g loginGuard) RoundTrip(r *http.Request) (*http.Response, error) {
	_, _, basic := r.BasicAuth()
	if login := basic || r.Method == http.MethodPost; login && !related(g.registry, r.URL.Host) {
		if r.Body != nil {
			r.Body.Close()
		}
		return nil, fmt.Errorf("the registry %s wants its login sent to %.200s, which is not of the same domain", g.registry, r.URL.Host)
	}
	return g.next.RoundTrip(r)
}

// related tells whether two hosts are the same, or of one registered domain, such as registry-1.docker.io and auth.docker.io.
func related(a, b string) bool {
	name := func(host string) string {
		if name, _, err := net.SplitHostPort(host); err == nil {
			host = name
		}
		return strings.ToLower(strings.TrimSuffix(host, "."))
	}
	a, b = name(a), name(b)
	if a == b {
		return true
	}
	if net.ParseIP(a) != nil || net.ParseIP(b) != nil {
		return false
	}
	domain, err := publicsuffix.EffectiveTLDPlusOne(a)
	other, err2 := publicsuffix.EffectiveTLDPlusOne(b)
	return err == nil && err2 == nil && domain == other
}

// A reader sends requests to a registry with the token that it requires. The token is for one repository, so
// a fetched one serves all requests until it is refused.
type reader struct {
	*auth.Client
	host, scope string
}

func (r *reader) Do(req *http.Request) (*http.Response, error) {
	return r.Client.Do(req.WithContext(auth.WithScopesForHost(req.Context(), r.host, r.scope)))
}

func (h *Hub) resolveRegistry(ctx context.Context, r Ref, base string, c doer) (*Plan, *registryManifest, error) {
	m, sum, err := h.manifest(ctx, c, base, r.Repo, r.Tag)
	if err == nil && len(m.Layers) == 0 && len(m.Manifests) > 0 { // models do not differ between platforms
		m, sum, err = h.manifest(ctx, c, base, r.Repo, m.Manifests[0].Digest)
	}
	if err != nil {
		return nil, nil, err
	}
	files, err := m.weights(r.fileName())
	if err != nil {
		return nil, nil, err
	}
	for i := range files {
		f := &files[i]
		f.Path = path.Base(f.Path)
		f.URL, f.from = base+"/v2/"+r.Repo+"/blobs/sha256:"+f.SHA256, c
	}
	return &Plan{Ref: r, Revision: "sha256:" + sum, Files: files}, m, nil
}

// manifest fetches a manifest, and verifies it if it is named by digest.
func (h *Hub) manifest(ctx context.Context, c doer, base, repo, tag string) (m *registryManifest, sum string, err error) {
	want, pinned := strings.CutPrefix(tag, "sha256:")
	if pinned {
		if err := checkSum(want); err != nil {
			return nil, "", err
		}
	}
	body, err := h.get(ctx, c, base+"/v2/"+repo+"/manifests/"+tag, http.Header{"Accept": {strings.Join(manifestTypes, ", ")}}, maxManifest)
	var status *StatusError
	if errors.As(err, &status) && (status.Status == http.StatusNotFound || status.Status == http.StatusUnauthorized) {
		return nil, "", fmt.Errorf("%w: there is no such model, or it needs a login", err)
	}
	if err != nil {
		return nil, "", err
	}
	hash := sha256.Sum256(body)
	if sum = hex.EncodeToString(hash[:]); pinned && sum != want {
		return nil, "", fmt.Errorf("the manifest's sha256 is %s, want %s", sum, want)
	}
	m, err = parseManifest(body)
	return m, sum, err
}
