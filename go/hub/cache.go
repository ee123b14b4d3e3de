package hub

import (
	"context"
	"crypto/sha256"
	"encoding/hex"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"net/url"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"time"

	"github.com/quern-llm/quern/go/platform"

	"github.com/quern-llm/quern/go/demo"
	"github.com/quern-llm/quern/go/persona"
)

// The cache has
//
//	models/NAME.json   a model: which files it has
//	personas/NAME.json a persona: settings of a model under a name
//	views/ID/FILE      links to them, by the names that they had on the server
//	blobs/sha256-SUM   the files
//	partial/           what is being downloaded
//	lock               held for as long as these change
//
// A file of models/ is the last that a pull writes, and the first that a removal removes.

// A Model is a model in the cache.
type Model struct {
	Name     string      `json:"name"`
	Source   string      `json:"source"`             // the name that it was pulled by, which is another where it was copied
	Revision string      `json:"revision,omitempty"` // of the source
	Pulled   time.Time   `json:"pulled"`
	Asked    []string    `json:"asked,omitempty"` // other names that mean it
	Files    []ModelFile `json:"files"`           // the shards, in order, and the projector, if there is one

	Persona *persona.Persona `json:"persona,omitempty"` // settings that it came with; nil: none
	Skipped string           `json:"-"`                 // which of its settings are left out, and why; empty: none
}

// A ModelFile is a file of a model.
type ModelFile struct {
	Name      string `json:"name"`
	Size      int64  `json:"size"`
	SHA256    string `json:"sha256"`
	URL       string `json:"url"`
	Validator string `json:"validator,omitempty"`
}

// Bytes returns the size of the model's files.
func (m *Model) Bytes() int64 {
	n := int64(0)
	for _, f := range m.Files {
		n += f.Size
	}
	return n
}

// Short returns the model's name without the server, as other programs show it.
func (m *Model) Short() string {
	if r, err := ParseRef(m.Name); err == nil {
		return r.Short()
	}
	return m.Name
}

// view returns the name of the model's folder of links.
func (m *Model) view() string {
	sum := sha256.New()
	for _, f := range m.Files {
		fmt.Fprintf(sum, "%s %s\n", f.SHA256, f.Name)
	}
	return hex.EncodeToString(sum.Sum(nil))[:40]
}

// ErrUsed reports a model that cannot be removed, for personas are made from it.
var ErrUsed = errors.New("remove that first")

// ErrNotFound reports a model that is not in the cache.
var ErrNotFound = errors.New("it is not in the cache; \"quern list\" shows what is")

const maxModel = 8 << 20 // bytes of a file of models/

func (h *Hub) models() string { return filepath.Join(h.c.Dir, "models") }
func (h *Hub) views() string  { return filepath.Join(h.c.Dir, "views") }
func (h *Hub) blobs() string  { return filepath.Join(h.c.Dir, "blobs") }

func (h *Hub) blob(sum string) string { return filepath.Join(h.blobs(), "sha256-"+sum) }

// manifestPath returns the path of a model's description.
func (h *Hub) manifestPath(name string) string { return filepath.Join(h.models(), fileName(name)) }

// fileName returns the name of the file that describes what has a name. Names that are too long for a file name end in a
// hash.
func fileName(name string) string {
	file := strings.ReplaceAll(url.QueryEscape(name), "%3A", ":")
	if len(file) > 200 {
		sum := sha256.Sum256([]byte(name))
		file = file[:120] + "-" + hex.EncodeToString(sum[:])
	}
	return file + ".json"
}

// Path returns the path of a model's first file; its other files are in the same folder.
func (h *Hub) Path(m *Model) string { return filepath.Join(h.views(), m.view(), m.Files[0].Name) }

// parseModel parses the description of a model.
func parseModel(b []byte) (*Model, error) {
	var m Model
	if err := json.Unmarshal(b, &m); err != nil {
		return nil, err
	}
	if m.Name == "" || len(m.Files) == 0 || len(m.Files) > maxFiles {
		return nil, errors.New("a model without a name or files")
	}
	for _, f := range m.Files {
		if err := checkName(f.Name); err != nil {
			return nil, err
		}
		if err := checkSum(f.SHA256); err != nil {
			return nil, err
		}
		if f.Size < 0 || f.Size > maxBytes {
			return nil, fmt.Errorf("a file of %d bytes", f.Size)
		}
	}
	if m.Persona != nil {
		m.Skipped = skipped(m.Persona.DropInvalid())
		if err := m.Persona.Check(); err != nil {
			return nil, err
		}
	}
	return &m, nil
}

func readModel(path string) (*Model, error) {
	f, err := os.Open(path)
	if err != nil {
		return nil, err
	}
	defer f.Close()
	b, err := io.ReadAll(io.LimitReader(f, maxModel))
	if err != nil {
		return nil, err
	}
	m, err := parseModel(b)
	if err != nil {
		return nil, fmt.Errorf("%s: %w", path, err)
	}
	return m, nil
}

// List returns the models in the cache, sorted by name. Unreadable ones are reported in the error, together
// with the readable ones.
func (h *Hub) List() ([]*Model, error) {
	entries, err := os.ReadDir(h.models())
	if errors.Is(err, fs.ErrNotExist) {
		return nil, nil
	}
	if err != nil {
		return nil, err
	}
	var all []*Model
	var bad []error
	for _, e := range entries {
		if strings.HasPrefix(e.Name(), ".") || filepath.Ext(e.Name()) != ".json" {
			continue
		}
		m, err := readModel(filepath.Join(h.models(), e.Name()))
		switch {
		case err == nil:
			all = append(all, m)
		case !errors.Is(err, fs.ErrNotExist): // removed meanwhile
			bad = append(bad, fmt.Errorf("%w; \"quern rm %s\" removes it", err, e.Name()))
		}
	}
	slices.SortFunc(all, func(a, b *Model) int { return strings.Compare(a.Name, b.Name) })
	return all, errors.Join(bad...)
}

// Find returns the model with a name: an alias, or the name it was pulled by, with or without its server. For
// a repository with several quantizations and no tag, it returns the one that a pull would choose. If the
// name has a hash, the file must have it.
func (h *Hub) Find(name string) (*Model, error) {
	all, err := h.List()
	if len(all) == 0 && err != nil {
		return nil, err
	}
	if m := find(all, name); m != nil {
		return m, nil
	}
	return nil, fmt.Errorf("%s: %w", name, ErrNotFound)
}

// find returns the model that a name refers to; nil if there is none.
func find(all []*Model, name string) *Model {
	all = slices.DeleteFunc(all, func(m *Model) bool { return !m.mayBe(name) })
	for _, prefix := range []string{"", "ollama.com/", "hf.co/"} {
		if m := named(all, prefix+name); m != nil {
			return m
		}
	}
	if i := slices.IndexFunc(all, func(m *Model) bool { return m.Short() == name }); i >= 0 {
		return all[i]
	}
	return nil
}

// mayBe reports whether the model matches the hash in a name; most names have none.
func (m *Model) mayBe(name string) bool {
	r, err := ParseRef(name)
	return err != nil || r.Sum == "" || r.Sum == m.Files[0].SHA256
}

// named returns the model that a name with a server refers to; nil if there is none.
func named(all []*Model, name string) *Model {
	same := func(name string) *Model {
		for _, is := range []func(a string) bool{
			func(a string) bool { return a == name },
			func(a string) bool { return alike(a, name) },
		} {
			for _, m := range all {
				if is(m.Name) {
					return m
				}
			}
			for _, m := range all {
				if slices.ContainsFunc(m.Asked, is) {
					return m
				}
			}
		}
		return nil
	}
	if m := same(name); m != nil {
		return m
	}
	r, err := ParseRef(name)
	if err != nil {
		return nil
	}
	if m := same(r.String()); m != nil || r.Kind != HuggingFace || r.Tag != "" || r.File != "" {
		return m
	}
	for _, quant := range preferred {
		r.Tag = quant
		if m := same(r.String()); m != nil {
			return m
		}
	}
	r.Tag = ""
	i := slices.IndexFunc(all, func(m *Model) bool { return strings.HasPrefix(m.Name, r.String()+":") })
	if i < 0 {
		return nil
	}
	return all[i]
}

// present returns the path of a file in the cache; empty if it is not there.
func (h *Hub) present(f *File) string {
	sum := f.SHA256
	if sum == "" && f.Validator != "" { // the same address had it before
		all, _ := h.List()
		for _, m := range all {
			for _, g := range m.Files {
				if g.URL == f.URL && g.Validator == f.Validator && g.Size == f.Size {
					sum = g.SHA256
				}
			}
		}
	}
	if sum == "" {
		return ""
	}
	info, err := os.Stat(h.blob(sum))
	if err != nil || f.Size >= 0 && info.Size() != f.Size {
		return ""
	}
	return h.blob(sum)
}

// lock locks the cache until unlock is called.
func (h *Hub) lock(ctx context.Context) (unlock func(), err error) {
	if err := os.MkdirAll(h.c.Dir, 0o755); err != nil {
		return nil, err
	}
	f, err := os.OpenFile(filepath.Join(h.c.Dir, "lock"), os.O_RDWR|os.O_CREATE, 0o644)
	if err != nil {
		return nil, err
	}
	for {
		locked, err := platform.Lock(f)
		if locked {
			return func() { f.Close() }, nil
		}
		if err != nil {
			f.Close()
			return nil, fmt.Errorf("%s: %w", f.Name(), err)
		}
		select {
		case <-ctx.Done():
			f.Close()
			return nil, ctx.Err()
		case <-time.After(lockEvery / 10):
		}
	}
}

// link creates a folder of links with the names of files.
func link(dir string, names, targets []string) error {
	if err := os.MkdirAll(dir, 0o755); err != nil {
		return err
	}
	for i, name := range names {
		if err := platform.LinkFile(targets[i], filepath.Join(dir, name)); err != nil {
			return err
		}
	}
	return nil
}

// write adds a model whose files are in the cache. The caller holds the lock.
func (h *Hub) write(m *Model) error {
	for _, dir := range []string{h.models(), h.views()} {
		if err := os.MkdirAll(dir, 0o755); err != nil {
			return err
		}
	}
	view := filepath.Join(h.views(), m.view())
	if _, err := os.Stat(h.Path(m)); err != nil {
		temp, err := os.MkdirTemp(h.views(), ".tmp-*")
		if err != nil {
			return diskError(err)
		}
		defer os.RemoveAll(temp)
		var names, targets []string
		for _, f := range m.Files {
			names, targets = append(names, f.Name), append(targets, filepath.Join("..", "..", "blobs", filepath.Base(h.blob(f.SHA256))))
		}
		if err := link(temp, names, targets); err != nil {
			return diskError(err)
		}
		if err := os.Chmod(temp, 0o755); err != nil {
			return err
		}
		if err := os.RemoveAll(view); err != nil {
			return err
		}
		if err := os.Rename(temp, view); err != nil {
			return err
		}
	}
	b, err := json.MarshalIndent(m, "", "  ")
	if err != nil {
		return err
	}
	return replaceFile(h.manifestPath(m.Name), b)
}

// Remove removes a persona, or a model and the files that no other model uses. It returns how many bytes that freed. An
// unreadable model can be removed by its name or that of its file in models/. A model that personas are made from stays.
func (h *Hub) Remove(ctx context.Context, name string) (m *Model, freed int64, err error) {
	unlock, err := h.lock(ctx)
	if err != nil {
		return nil, 0, err
	}
	defer unlock()
	if was, err := h.removePersona(name); was || err != nil {
		return &Model{Name: persona.BareName(name)}, 0, err
	}
	path := h.unreadable(name)
	if path != "" {
		m = &Model{Name: name}
	} else if m, err = h.Find(name); err != nil {
		return nil, 0, err
	} else if used := h.usedBy(m); len(used) > 0 {
		return nil, 0, fmt.Errorf("%s: %s is made from it; %w", m.Name, strings.Join(used, ", "), ErrUsed)
	} else {
		path = h.manifestPath(m.Name)
	}
	if err := os.Remove(path); err != nil {
		return nil, 0, err
	}
	freed, err = h.collect()
	return m, freed, err
}

// unreadable returns the unreadable file in models/ that a name refers to, or an empty string.
func (h *Hub) unreadable(name string) string {
	paths := []string{h.manifestPath(name)}
	if filepath.Base(name) == name && filepath.Ext(name) == ".json" {
		paths = append(paths, filepath.Join(h.models(), name))
	}
	for _, path := range paths {
		if _, err := readModel(path); err != nil && !errors.Is(err, fs.ErrNotExist) {
			return path
		}
	}
	return ""
}

// Copy adds an alias for a model, or a persona like another: a name without a server. An existing one of that name is
// replaced by one of its kind.
func (h *Hub) Copy(ctx context.Context, from, to string) error {
	if err := checkAlias(to); err != nil {
		return err
	}
	unlock, err := h.lock(ctx)
	if err != nil {
		return err
	}
	defer unlock()
	p, m, err := h.Named(from)
	if err != nil {
		return err
	}
	if p != nil {
		if err := h.free(persona.BareName(to)); err != nil {
			return err
		}
		as := *p
		as.Name = persona.BareName(to)
		return h.writePersona(&as)
	}
	if _, err := os.Stat(h.personaPath(to)); err == nil {
		return fmt.Errorf("%s is a persona; choose another name, or remove that with \"quern rm %s\"", to, to)
	}
	as := *m
	as.Name, as.Asked = to, nil
	if err := h.write(&as); err != nil {
		return err
	}
	_, _ = h.collect() // what a copy of that name had; where a model cannot be read it stays
	return nil
}

// checkAlias returns an error unless name is valid as an alias.
func checkAlias(name string) error {
	bare, tag, tagged := strings.Cut(name, ":")
	ok := len(name) <= 200 && (!tagged || tagForm(tag))
	for _, part := range strings.Split(bare, "/") {
		ok = ok && isComponent(part)
	}
	if demo.Is(name) {
		return fmt.Errorf("the name %q is an embedded model's, want another", name)
	}
	if _, err := ParseRef(name); !ok || !errors.Is(err, ErrNoRef) {
		return fmt.Errorf("the name %.80q, want letters and digits with . - _ / between them, and no server", name)
	}
	return nil
}

// collect removes files and views that no model uses. The caller holds the lock.
func (h *Hub) collect() (freed int64, err error) {
	all, err := h.List()
	if err != nil {
		return 0, fmt.Errorf("no file is removed from the cache: %w", err)
	}
	keep := map[string]bool{}
	for _, m := range all {
		keep[m.view()] = true
		for _, f := range m.Files {
			keep[filepath.Base(h.blob(f.SHA256))] = true
		}
	}
	for _, dir := range []string{h.views(), h.blobs()} {
		entries, err := os.ReadDir(dir)
		if err != nil && !errors.Is(err, fs.ErrNotExist) {
			return freed, err
		}
		for _, e := range entries {
			if keep[e.Name()] {
				continue
			}
			if info, err := e.Info(); err == nil && info.Mode().IsRegular() {
				freed += info.Size()
			}
			if err := os.RemoveAll(filepath.Join(dir, e.Name())); err != nil {
				return freed, err
			}
		}
	}
	return freed, nil
}

// Clean removes the partial files of interrupted pulls, except those in use by another program. It returns
// how many bytes that freed.
func (h *Hub) Clean() (freed int64, err error) {
	entries, err := os.ReadDir(h.partial())
	if err != nil && !errors.Is(err, fs.ErrNotExist) {
		return 0, err
	}
	for _, e := range entries {
		path := filepath.Join(h.partial(), e.Name())
		info, err := e.Info()
		switch {
		case err != nil || strings.HasPrefix(e.Name(), ".") && time.Since(info.ModTime()) < time.Hour: // a pull may be at it
			continue
		case e.IsDir(): // links to heads that were checked
			err = os.RemoveAll(path)
		case filepath.Ext(path) == ".json": // goes with its data
		default:
			var n int64
			n, err = cleanPart(path)
			freed += n
		}
		if err != nil {
			return freed, err
		}
	}
	return freed, nil
}

// cleanPart removes a file and its record, unless it is being downloaded.
func cleanPart(path string) (int64, error) {
	f, err := platform.OpenItself(path, os.O_RDWR, 0)
	if errors.Is(err, fs.ErrNotExist) {
		return 0, nil
	}
	if err != nil {
		return 0, err
	}
	defer f.Close()
	if locked, _ := platform.Lock(f); !locked || !sameFile(f, path) {
		return 0, nil
	}
	taken, err := platform.Taken(f)
	if err != nil {
		return 0, err
	}
	if err := os.Remove(path + ".json"); err != nil && !errors.Is(err, fs.ErrNotExist) {
		return 0, err
	}
	return taken, os.Remove(path)
}
