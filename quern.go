// Package quern runs large language models on CPUs inside a Go program.
//
//	m, err := quern.Open(ctx, "model.gguf")
//	if err != nil { ... }
//	defer m.Close()
//	for ev, err := range m.Chat(ctx, quern.Request{Messages: []quern.Message{quern.User("Why is the sky blue?")}}) {
//		if err != nil { ... }
//		fmt.Print(ev.Text)
//	}
//
// A [Model] is an open model. All its methods are safe for concurrent use, and that is what they are for: texts that
// are generated at the same time share each pass over the weights, so a hundred goroutines that ask one model are
// served many times faster than one after the other. A [Device] is the threads and the memory of the machine; several
// models may share one. A [Session] is a conversation, whose beginning stays evaluated; it can be saved, restored and
// forked. A [Tool] is a Go function that a model may call; [Into] has a model answer with a Go value; a [Task] is a
// prompt with examples that is evaluated once and used many times. Models of speech write down what is said in sound.
//
// The package has no global state: it installs no signal handlers, writes nothing and sets no limits of the process.
// When a model is closed, its goroutines and its memory are gone. What a text is, and each bit of its probabilities, does
// not depend on what else the model does at the time, on the number of threads or on the CPU.
//
// Errors are one line, and can be told apart with [errors.Is]: see [ErrFile] and those beside it.
package quern

import (
	"context"
	"fmt"
	"sync"

	"github.com/quern-llm/quern/go/chat"
	"github.com/quern-llm/quern/go/constrain"
	"github.com/quern-llm/quern/go/demo"
	"github.com/quern-llm/quern/go/engine"
	"github.com/quern-llm/quern/go/form"
	"github.com/quern-llm/quern/go/launch"
	"github.com/quern-llm/quern/go/mem"
	"github.com/quern-llm/quern/go/sample"
	"github.com/quern-llm/quern/go/tokenizer"
	"github.com/quern-llm/quern/go/transcribe"
	"github.com/quern-llm/quern/go/verify"
)

// Demo is the name of a tiny model that is part of this package: it tells short stories, and needs no file.
const Demo = demo.Name

// DemoVision is the name of another one, which sees: it names coloured shapes, digits and letters in a picture.
const DemoVision = demo.Vision

// A Model is an open model. Its methods may be called by any number of goroutines.
type Model struct {
	device   *Device
	own      bool // the device has no other model, and is closed with this one
	open     *launch.Model
	loop     *engine.Loop
	tok      *tokenizer.Tokenizer
	template *chat.Template
	warning  string           // why that is not the model's own
	sampling sample.Params    // the model's own
	copied   *mem.Reservation // of its file's bytes in memory; nil: they are not

	vocabulary func() *constrain.Vocabulary           // for formats and calls of tools
	speech     func() (*transcribe.Vocabulary, error) // to write down what is said; the error of a model that does not

	mu      sync.Mutex
	closed  bool
	inside  sync.WaitGroup // calls that use what Close frees, and end with the loop
	closing sync.Once
	end     chan struct{} // closed when closing begins
}

// Open opens a model: the path of a GGUF file (of one of its shards), a folder with a Hugging Face checkpoint, a name
// such as hf.co/ORG/REPO:QUANT, ollama.com/NAME, oci://HOST/REPO or the URL of a file, which is downloaded unless it is
// in the cache, or [Demo]. It returns when the weights are loaded, or when ctx ends.
//
// Errors are [ErrFile] for what cannot be read or is no model, [ErrMemory] for what does not fit, [ErrUnsupported] for a
// model that this version cannot run, and [ErrInvalid] for options.
func Open(ctx context.Context, name string, options ...Option) (*Model, error) {
	if ctx == nil {
		return nil, errNilContext
	}
	s := newSettings(options)
	ctx, stop := context.WithCancel(ctx)
	defer stop()
	panicked := s.guard(stop)
	m, err := s.model(ctx, name)
	if v := panicked(); v != nil {
		if m != nil {
			m.Close()
		}
		panic(v)
	}
	if err != nil && ctx.Err() != nil {
		return nil, context.Cause(ctx)
	}
	return m, classify(err, ErrFile)
}

func (s *settings) model(ctx context.Context, name string) (_ *Model, err error) {
	if s.wrong != nil {
		return nil, s.wrong
	}
	m := &Model{device: s.device, end: make(chan struct{})}
	if m.device == nil {
		if m.device, err = NewDevice(s.alone); err != nil {
			return nil, err
		}
		m.own = true
	}
	whole := false
	defer func() {
		if !whole { // also where a file system of the caller's panics
			m.release()
		}
	}()
	ctx, loaded, err := m.device.load(ctx, m)
	if err != nil {
		return nil, err
	}
	defer loaded()
	head, err := s.head(ctx, m, name)
	if err != nil {
		return nil, err
	}
	note := s.note
	if m.template, m.warning, err = head.Template(launch.Template{Source: s.template}); err != nil {
		head.Close()
		return nil, &failure{ErrInvalid, err}
	}
	if m.warning != "" && !head.Config.BothWays {
		note(m.warning)
	}
	m.tok = head.Tokenizer
	hears := head.Config.Sound.Bands > 0
	if hears {
		head.Settings.Ctx = head.Config.NCtx // of sound and text, which each model has its own of
	}
	var ignored []string
	m.sampling, ignored = sample.Defaults().ForModel(head.File.GGUF)
	for _, line := range ignored {
		note(line)
	}
	m.open, err = head.Open(ctx, m.device.engine, launch.Events{
		Progress: s.loading(), Note: note,
		Failed: func(err error) { note("the draft model failed, and does not draft for a while: " + err.Error()) },
	})
	if err != nil {
		return nil, err
	}
	if line := m.open.Warning(); line != "" {
		note(line)
	}
	m.loop, err = engine.NewLoop(m.open.Engine, engine.LoopConfig{
		Queue: s.queue, Profile: verify.Profile(),
		OnPanic: func(p *engine.PanicError) { note(fmt.Sprintf("a request panicked: %v\n%s", p.Value, p.Stack)) },
	})
	if err != nil {
		return nil, fmt.Errorf("%s: %w", name, err)
	}
	tok := m.tok
	m.vocabulary = sync.OnceValue(func() *constrain.Vocabulary { return form.Vocabulary(tok) })
	m.speech = sync.OnceValues(func() (*transcribe.Vocabulary, error) {
		if !hears {
			return nil, fmt.Errorf("%s: %w", name, transcribe.ErrModel)
		}
		return transcribe.NewVocabulary(tok)
	})
	whole = true
	return m, nil
}

// Close ends what the model generates, with [ErrClosed], and frees all that it has. Closing again does nothing.
func (m *Model) Close() error {
	m.closing.Do(func() {
		m.mu.Lock()
		m.closed = true
		m.mu.Unlock()
		close(m.end)
		m.loop.Close() // calls that wait for it end
		m.inside.Wait()
		m.release()
	})
	return nil
}

// release closes the parts that are there.
func (m *Model) release() {
	if m.loop != nil {
		m.loop.Close()
	}
	if m.open != nil {
		m.open.Close()
	}
	if m.copied != nil {
		m.copied.Release()
	}
	m.device.leave(m)
	if m.own {
		m.device.Close()
	}
}

// enter returns an error if the model is closed. Else Close waits until inside is done, which must not depend on the
// caller's code: that may close the model.
func (m *Model) enter(ctx context.Context) (leave func(), err error) {
	if ctx == nil {
		return nil, errNilContext
	}
	if ctx.Err() != nil {
		return nil, context.Cause(ctx)
	}
	if m == nil {
		return nil, errClosed
	}
	m.mu.Lock()
	defer m.mu.Unlock()
	if m.closed {
		return nil, errClosed
	}
	m.inside.Add(1)
	return m.inside.Done, nil
}

func init() {
	launch.RunningOf = func(model any) (*launch.Running, func(), error) {
		m := model.(*Model)
		leave, err := m.enter(context.Background())
		if err != nil {
			return nil, nil, err
		}
		return &launch.Running{
			Model: m.open, Loop: m.loop, Template: m.template, TemplateWarning: m.warning, Sampling: m.sampling, Closing: m.end,
		}, leave, nil
	}
}

// Info is what is to be known of a model.
type Info struct {
	Name          string // of the file, as far as it has one
	Architecture  string // such as llama or qwen3
	Parameters    uint64 // weights
	Bytes         uint64 // of the files
	Types         string // of the weights, such as Q4_K - Medium
	ContextLength int    // tokens of a text and its answer
	TrainedLength int    // tokens of the texts that the model was trained with
	Vocabulary    int    // tokens
	VectorSize    int    // numbers of the vector of a text
	Tools         bool   // its chat template knows tools
	Reasoning     bool   // its chat template turns reasoning on and off
	Speech        bool   // it transcribes: Model.Transcribe
}

// Info returns what is to be known of the model; of one that is closed, nothing.
func (m *Model) Info() Info {
	leave, err := m.enter(context.Background())
	if err != nil {
		return Info{}
	}
	defer leave()
	h := m.open.Head
	name, _ := h.File.GGUF.Str("general.name")
	caps := m.template.Caps()
	i := Info{
		Name: name, Architecture: h.Config.Arch, Bytes: h.File.Size(), Types: h.File.GGUF.MixName(),
		ContextLength: m.open.Engine.Ctx(), TrainedLength: h.Config.NCtx, Vocabulary: m.tok.Len(),
		VectorSize: h.Config.VectorWidth(), Tools: caps.Tools, Reasoning: caps.EnableThinking || caps.ReasoningEffort,
		Speech: h.Config.Sound.Bands > 0 || m.open.Projector.Takes(chat.Sound),
	}
	for k := range h.File.GGUF.Tensors {
		i.Parameters += h.File.GGUF.Tensors[k].Elems()
	}
	return i
}
