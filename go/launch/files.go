package launch

import (
	"context"
	"fmt"
	"io"
	"os"
	"path/filepath"
	"sync"

	"github.com/quern-llm/quern/go/convert"
	"github.com/quern-llm/quern/go/demo"
	"github.com/quern-llm/quern/go/gguf"
	"github.com/quern-llm/quern/go/internal/newfile"
	"github.com/quern-llm/quern/go/machine"
	"github.com/quern-llm/quern/go/model"
	"github.com/quern-llm/quern/go/platform"
	"github.com/quern-llm/quern/go/tokenizer"
)

// A Bar shows how far something is that may take long. It is called at the beginning, and returns functions that
// are called with the bytes that are done, and at the end.
type Bar func() (update func(done, total uint64), end func())

// Begin begins to show; a nil Bar shows nothing.
func (b Bar) Begin() (update func(done, total uint64), end func()) {
	if b == nil {
		return func(done, total uint64) {}, func() {}
	}
	return b()
}

// Files opens models by name. Weights of checkpoints are converted to GGUF, each once in the life of a Files:
// to a file without a name, whose space is free again when nothing uses it any more. The zero value is valid.
type Files struct {
	Converting Bar               // of each checkpoint that is converted; nil: nothing is shown
	Note       func(line string) // is told what conversion loses; may be nil

	mu     sync.Mutex
	made   map[string]*os.File // by folder, view and type
	remote map[string][]model.Source
}

// Remote has the model called name read from these sources, one or all shards in order, when it is opened. Only those who
// run the program name such models.
func (f *Files) Remote(name string, sources []model.Source) {
	f.mu.Lock()
	defer f.mu.Unlock()
	if f.remote == nil {
		f.remote = map[string][]model.Source{}
	}
	f.remote[name] = sources
}

// Elsewhere reports whether the model called name is read from its server: see Remote.
func (f *Files) Elsewhere(name string) bool { return f.remotely(name) != nil }

// remotely returns the sources of a model; nil if it is none that is elsewhere.
func (f *Files) remotely(name string) []model.Source {
	f.mu.Lock()
	defer f.mu.Unlock()
	return f.remote[name]
}

// Open opens the model called name: an embedded demo, the path of a file of GGUF or of whisper.cpp, or a folder with a
// checkpoint, whose weights become those of the type quantize; empty: they stay as they are; or one of Remote.
func (f *Files) Open(name, quantize string) (*model.File, error) {
	if sources := f.remotely(name); sources != nil {
		return model.OpenRemote(context.Background(), name, sources)
	}
	switch {
	case demo.Is(name):
		return model.OpenBytes(name, demo.File(name))
	case convert.Is(name):
		return f.checkpoint(name, quantize)
	case convert.IsWhisperCpp(name):
		return f.view(name, "model", "", func(path string, _ convert.Options) (converted, error) {
			return convert.OpenWhisperCpp(path)
		})
	}
	if fi, err := os.Stat(name); err == nil && fi.IsDir() {
		return nil, notModel(name)
	}
	return model.OpenFile(name)
}

// notModel is the error for a folder in the place of a model.
func notModel(dir string) error {
	advice := ""
	if files, err := gguf.ModelsIn(dir); err == nil && len(files) > 0 {
		advice = ", such as " + files[0]
	}
	return fmt.Errorf("%s is a folder without a checkpoint, which has config.json; give a GGUF file%s", dir, advice)
}

// Tokenizer reads the vocabulary of the model called name, which may have nothing else.
func (f *Files) Tokenizer(name string) (*tokenizer.Tokenizer, error) {
	file, err := f.Open(name, "")
	if err != nil {
		return nil, err
	}
	tok, err := tokenizer.New(file.GGUF)
	if err != nil {
		file.Close()
		return nil, fmt.Errorf("%s: %w", name, err)
	}
	return tok, file.Close()
}

// OpenProjector opens encoders of pictures and sounds: those of an embedded demo, a file, or those of the checkpoint in a
// folder, whose weights stay as they are.
func (f *Files) OpenProjector(name string) (*model.File, error) {
	if b := demo.Projector(name); b != nil {
		return model.OpenBytes(name, b)
	}
	if convert.Is(name) {
		return f.view(name, "mmproj", "", func(dir string, o convert.Options) (converted, error) {
			return convert.OpenProjector(dir, o)
		})
	}
	return model.OpenFile(name)
}

// checkpoint opens the checkpoint in a folder as a model.
func (f *Files) checkpoint(dir, quantize string) (*model.File, error) {
	return f.view(dir, "model", quantize, func(dir string, o convert.Options) (converted, error) {
		return convert.Open(dir, o)
	})
}

// view opens what a checkpoint is converted to: its text model, or its encoders.
func (f *Files) view(dir, what, typ string, open converter) (*model.File, error) {
	f.mu.Lock()
	defer f.mu.Unlock()
	key := dir + "\x00" + what + "\x00" + typ
	made := f.made[key]
	if made == nil {
		var err error
		if made, err = f.convert(dir, typ, open); err != nil {
			return nil, err
		}
		if f.made == nil {
			f.made = map[string]*os.File{}
		}
		f.made[key] = made
	}
	return model.OpenFileAs(platform.Path(made), dir)
}

// A converter opens a checkpoint to be converted.
type converter func(dir string, o convert.Options) (converted, error)

type converted interface {
	Size() uint64
	Write(ctx context.Context, w io.Writer) (int64, error)
	Close() error
}

func (f *Files) convert(dir, typ string, open converter) (*os.File, error) {
	cpus, err := machine.Read()
	if err != nil {
		return nil, err
	}
	progress, end := f.Converting.Begin()
	defer end()
	m, err := open(dir, convert.Options{Type: typ, Threads: cpus.Threads(), Progress: progress})
	if err != nil {
		return nil, err
	}
	defer m.Close()
	made, err := newfile.Nameless(scratchDir(), m.Size(), func(w io.Writer) (int64, error) {
		return m.Write(context.Background(), w)
	})
	if err != nil {
		return nil, fmt.Errorf("%s: converting it takes a file as large as its weights, in a folder that TMPDIR names: %w",
			dir, err)
	}
	if c, ok := m.(*convert.Model); ok && c.Loss() != "" && f.Note != nil {
		f.Note(dir + ": " + c.Loss())
	}
	return made, nil
}

// scratchDir returns the folder for large files that nobody else reads: TMPDIR, or the one for those that may
// be kept on a disk, since /tmp is often memory.
func scratchDir() string {
	if dir := os.Getenv("TMPDIR"); dir != "" {
		return dir
	}
	if info, err := os.Stat("/var/tmp"); err == nil && info.IsDir() {
		return "/var/tmp"
	}
	return filepath.Clean(os.TempDir())
}
