package quern

import (
	"context"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"log/slog"
	"os"
	"sync"

	"github.com/quern-llm/quern/go/demo"
	"github.com/quern-llm/quern/go/draft"
	"github.com/quern-llm/quern/go/hub"
	"github.com/quern-llm/quern/go/kvcache"
	"github.com/quern-llm/quern/go/launch"
)

// An Option says how a model is opened.
type Option func(*settings)

// settings are what the options say.
type settings struct {
	launch   launch.Settings
	alone    DeviceConfig
	device   *Device // nil: one of its own
	template string
	queue    int
	log      *slog.Logger
	note     func(string) // tells log of a warning
	progress func(Progress)
	source   func(name string) (fs.File, error) // of the model's file; nil: the operating system's
	cache    string
	offline  bool
	wrong    error // of the first option that is not valid
}

// The defaults of options, and a limit.
const (
	defaultParallel = 32
	defaultQueue    = 1024
	maxContext      = 1 << 28
)

func newSettings(options []Option) *settings {
	s := &settings{queue: defaultQueue, launch: launch.Settings{
		Shared: true, Sequences: defaultParallel, Draft: launch.Draft{Sources: draft.All},
	}}
	for i, o := range options {
		if o == nil {
			s.refuse("option %d is nil", i)
			continue
		}
		o(s)
	}
	if s.device != nil && (s.alone.Threads != 0 || s.alone.Memory != 0) {
		s.refuse("WithDevice is given with WithThreads or WithMemory; give these to NewDevice")
	}
	s.note = func(line string) {
		if s.log != nil {
			s.log.Warn(inOptions.Replace(line))
		}
	}
	return s
}

func (s *settings) refuse(format string, args ...any) {
	if s.wrong == nil {
		s.wrong = invalid(fmt.Sprintf(format, args...))
	}
}

// WithContextLength sets how many tokens a text may have with its answer. By default it is what the model was trained
// with, as far as memory allows. A model of speech keeps its own.
func WithContextLength(tokens int) Option {
	return func(s *settings) {
		if s.launch.Ctx = tokens; tokens < 1 || tokens > maxContext {
			s.refuse("WithContextLength(%d), want 1 to %d", tokens, maxContext)
		}
	}
}

// WithParallel sets how many texts are generated at a time, 32 by default; others wait. They share each pass over the
// weights, and one memory of keys and values.
func WithParallel(texts int) Option {
	return func(s *settings) {
		if s.launch.Sequences = texts; texts < 1 || texts > 1024 {
			s.refuse("WithParallel(%d), want 1 to 1024", texts)
		}
	}
}

// WithQueue sets how many texts may wait, 1024 by default. Further ones fail with [ErrBusy].
func WithQueue(texts int) Option {
	return func(s *settings) {
		if s.queue = texts; texts < 0 {
			s.refuse("WithQueue(%d), want at least 0", texts)
		}
	}
}

// WithDevice opens the model on a device that it shares with others.
func WithDevice(d *Device) Option {
	return func(s *settings) {
		if s.device = d; d == nil {
			s.refuse("WithDevice(nil), want one that NewDevice returned")
		}
	}
}

// WithThreads sets the number of threads of a model with a device of its own.
func WithThreads(n int) Option { return func(s *settings) { s.alone.Threads = n } }

// WithMemory sets the most bytes that a model with a device of its own takes.
func WithMemory(bytes uint64) Option { return func(s *settings) { s.alone.Memory = bytes } }

// WithKVMemory sets the bytes of keys and values of all texts together. By default it is half of what is free beside the
// weights.
func WithKVMemory(bytes uint64) Option { return func(s *settings) { s.launch.KVBytes = bytes } }

// WithKVTypes sets the types in which keys and values are stored: i16, f16, f32, bf16, q8_0 or q4_0.
func WithKVTypes(keys, values string) Option {
	return func(s *settings) {
		for _, one := range []struct {
			name string
			to   *kvcache.Type
		}{{keys, &s.launch.KV.K}, {values, &s.launch.KV.V}} {
			t, err := kvcache.ParseType(one.name)
			if err != nil {
				s.refuse("WithKVTypes: %v", err)
			}
			*one.to = t
		}
	}
}

// WithDraft names a smaller model, or layers such as EAGLE-3 that were trained for the model: it guesses tokens that the
// model then verifies, several in a pass. That changes no text, only the time. Without it the model's own layers and the
// texts themselves draft.
func WithDraft(name string) Option { return func(s *settings) { s.launch.Draft.Path = name } }

// WithProjector names the file of encoders, mmproj-*.gguf, with which a model takes pictures and sounds. By default it is the
// one that lies beside the model.
func WithProjector(name string) Option { return func(s *settings) { s.launch.Projector = name } }

// WithProjectorType sets the type of its weights in memory: file, as they are; q8_0, in which they are faster and rows less
// exact; or auto, the default, which is q8_0 for floats of encoders that are not small.
func WithProjectorType(name string) Option {
	return func(s *settings) {
		if err := s.launch.ProjectorType.UnmarshalText([]byte(name)); err != nil {
			s.refuse("WithProjectorType: %v", err)
		}
	}
}

// WithoutDrafts turns all guesses off.
func WithoutDrafts() Option { return func(s *settings) { s.launch.Draft = launch.Draft{} } }

// WithAdapter adds a LoRA adapter, the path of a GGUF file, with a scale.
func WithAdapter(path string, scale float32) Option {
	return func(s *settings) {
		s.launch.Adapters = append(s.launch.Adapters, launch.Adapter{Name: path, Path: path, Scale: scale})
	}
}

// WithChatTemplate sets the chat template, in Jinja, or the name of a known one such as chatml, in place of the model's.
func WithChatTemplate(template string) Option {
	return func(s *settings) { s.template = template }
}

// WithLogger sets where warnings go, such as that a file has no chat template. By default nothing is said.
func WithLogger(l *slog.Logger) Option { return func(s *settings) { s.log = l } }

// Progress is how far a model is opened.
type Progress struct {
	Downloading bool   // else it is loaded from the file
	Done, Total uint64 // bytes; Total is 0 where nobody knows
}

// WithProgress has a function called while a model is downloaded and loaded, by one goroutine at a time.
func WithProgress(f func(Progress)) Option { return func(s *settings) { s.progress = f } }

// WithFS opens the model from a file system, in which its name is a path: an embed.FS, a ZIP file, a test's. A file that
// is not one of the operating system's is copied into memory first.
func WithFS(fsys fs.FS) Option {
	return func(s *settings) {
		if fsys == nil {
			s.refuse("WithFS(nil), want a file system")
			return
		}
		s.source = func(name string) (fs.File, error) { return fsys.Open(name) }
	}
}

// WithReaderAt opens the model from the size bytes of r, which are copied into memory first. The name is that of errors.
func WithReaderAt(r io.ReaderAt, size int64) Option {
	return func(s *settings) {
		if r == nil || size < 0 {
			s.refuse("WithReaderAt: no reader, or a size below 0")
			return
		}
		s.source = func(string) (fs.File, error) { return &section{io.NewSectionReader(r, 0, size)}, nil }
	}
}

// WithCache sets the folder of downloaded models; by default it is that of the quern program.
func WithCache(dir string) Option { return func(s *settings) { s.cache = dir } }

// WithoutDownloads has names of models mean those in the cache alone.
func WithoutDownloads() Option { return func(s *settings) { s.offline = true } }

// guard has a panic of what is told of progress and warnings end the opening by stop, so that nothing is left half open.
// The returned function ends the guard and returns the panic's value, which is the caller's.
func (s *settings) guard(stop func()) (panicked func() any) {
	var mu sync.Mutex
	var value any
	opening := true
	guarded := func(f func()) {
		mu.Lock()
		if !opening {
			mu.Unlock()
			f()
			return
		}
		defer mu.Unlock()
		if value != nil {
			return
		}
		defer func() {
			if value = recover(); value != nil {
				stop()
			}
		}()
		f()
	}
	note := s.note
	s.note = func(line string) { guarded(func() { note(line) }) }
	if tell := s.progress; tell != nil {
		s.progress = func(p Progress) { guarded(func() { tell(p) }) }
	}
	return func() any {
		mu.Lock()
		defer mu.Unlock()
		opening = false
		return value
	}
}

// loading returns what is told of the loading.
func (s *settings) loading() func(done, total uint64) {
	if s.progress == nil {
		return nil
	}
	return func(done, total uint64) { s.progress(Progress{Done: done, Total: total}) }
}

// head reads the head of the model of a name.
func (s *settings) head(ctx context.Context, m *Model, name string) (*launch.Head, error) {
	files := launch.Files{Note: s.note}
	var err error
	if s.launch.Draft.Path != "" {
		if s.launch.Draft.Path, err = s.locate(ctx, s.launch.Draft.Path); err != nil {
			return nil, err
		}
	}
	if s.source != nil {
		file, err := m.openFrom(ctx, s.source, name)
		if err != nil {
			return nil, err
		}
		return files.HeadOf(name, file, s.launch)
	}
	path, err := s.locate(ctx, name)
	if err != nil {
		return nil, err
	}
	return files.ReadHead(path, s.launch)
}

// locate returns the path of the model of a name, which is downloaded if need be.
func (s *settings) locate(ctx context.Context, name string) (string, error) {
	if _, err := os.Stat(name); err == nil || name == demo.Name || name == demo.Vision {
		return name, nil
	}
	if name == "" {
		return "", invalid("the name of the model is empty; give a file, a name such as hf.co/ORG/REPO, or quern.Demo")
	}
	ref, refErr := hub.ParseRef(name)
	if refErr != nil && !errors.Is(refErr, hub.ErrNoRef) {
		return "", &failure{ErrInvalid, refErr}
	}
	h, err := hub.FromEnvironment(hub.Config{Dir: s.cache, Offline: s.offline, Agent: "quern"})
	if err != nil {
		return "", err
	}
	m, err := h.Find(name)
	switch {
	case err == nil:
		return h.Path(m), nil
	case !errors.Is(err, hub.ErrNotFound):
		return "", err
	case refErr != nil:
		return "", fmt.Errorf("%s: no such file, and no model in the cache; %w", name, hub.ErrNoRef)
	}
	plan, err := h.Resolve(ctx, ref)
	if err != nil {
		return "", err
	}
	o := hub.Options{Asked: name}
	if s.progress != nil {
		o.Progress = func(p hub.Progress) {
			done, total := p.Bytes()
			s.progress(Progress{Downloading: true, Done: uint64(done), Total: uint64(max(total, 0))})
		}
	}
	if m, err = h.Pull(ctx, plan, o); err != nil {
		return "", err
	}
	return h.Path(m), nil
}
