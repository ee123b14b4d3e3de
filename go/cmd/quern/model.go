package main

import (
	"cmp"
	"errors"
	"fmt"
	"io"
	"os"
	"path/filepath"
	"strconv"
	"strings"
	"time"

	"github.com/spf13/cobra"
	"github.com/spf13/pflag"

	"github.com/quern-llm/quern/go/convert"
	"github.com/quern-llm/quern/go/demo"
	"github.com/quern-llm/quern/go/engine"
	"github.com/quern-llm/quern/go/internal/llamaflags"
	"github.com/quern-llm/quern/go/kernel"
	"github.com/quern-llm/quern/go/kvcache"
	"github.com/quern-llm/quern/go/machine"
	"github.com/quern-llm/quern/go/mem"
	"github.com/quern-llm/quern/go/model"
	"github.com/quern-llm/quern/go/tokenizer"
)

// defaultCtx is the default context: the model's own may need more memory than its
// weights.
const defaultCtx = 4096

// defaultBatch is enough tokens in a pass for every kernel to reach full speed.
const defaultBatch = 512

// modelFlags are the flags of every command that runs a model.
type modelFlags struct {
	path         string // demo.Name for the built-in one; empty if none is named
	ctx          int    // -1 is the default, 0 the model's own
	threads      int    // 0 is the default
	cpus         cpuFlags
	batch        int // 0 is the default
	ubatch       int // the same
	typeK, typeV string
	tiers        string // of keys and values by age; empty: none
	weights      string
	overrides    overrides // of the file's metadata
	memory       uint64
	vectors      bool // of texts, instead of logits
	mtp          bool // a layer of the model drafts
	sequences    int  // at a time; 0 is one
	shift        bool // contexts that are full
	keep         int  // first tokens of a prompt that stay then; -1 is all
	flags        *pflag.FlagSet
	hub          *hubFlags
}

// define adds all flags but -c, see defineContext.
func (f *modelFlags) define(fs *pflag.FlagSet) {
	f.defineMemory(fs)
	intVar(fs, &f.threads, "threads", "t", 0, 1, kernel.MaxThreads, "threads (default: see \"quern doctor\")")
	auto(fs, "threads", &f.threads, "-1", "0")
	f.cpus.define(fs)
}

// defineMemory adds the flags that determine memory use.
func (f *modelFlags) defineMemory(fs *pflag.FlagSet) {
	f.flags = fs
	types := kvcache.TypeNames()
	f.hub = modelVar(fs, &f.path, "GGUF `FILE` (the first of a split model), folder of a Hugging Face checkpoint, or model to download, such as hf.co/ORG/REPO; demo is the embedded demo model")
	f.hub.fits = f.fits
	fs.Var(&checkpoints, "quantize", "`TYPE` to convert the weights of a checkpoint folder to when it is loaded, such as Q4_K_M or q8_0 (default: no conversion)")
	intVar(fs, &f.batch, "batch-size", "b", 0, 1, 1<<16, "maximum tokens per forward pass")
	fs.Lookup("batch-size").DefValue = strconv.Itoa(defaultBatch)
	intVar(fs, &f.ubatch, "ubatch-size", "", 0, 1, 1<<16, "as --batch-size; the smaller of the two applies")
	fs.Lookup("ubatch-size").Hidden = true
	kvTypeVar(fs, &f.typeK, "cache-type-k", types, "type of the keys in the KV cache")
	kvTypeVar(fs, &f.typeV, "cache-type-v", types, "type of the values in the KV cache")
	alias(fs, "cache-type-k", "ctk")
	alias(fs, "cache-type-v", "ctv")
	fs.StringVar(&f.tiers, "kv-tiers", "", "`TYPES` of the KV cache by age, such as 256:i16,1024:q8_0,*:q4_0: the last 256 positions in i16, older ones up to 1024 in q8_0, all others in q4_0")
	choiceVar(fs, &f.weights, "weights", "auto", []string{"auto", "packed", "mapped", "streamed"}, "how weights are held in memory")
	f.overrides.define(fs)
	bytesVar(fs, &f.memory, "memory", "memory limit, such as 4G (default: see \"quern doctor\")")
}

// warn reports each flag that was given and does not do what its name says.
func (f *modelFlags) warn(note func(string)) {
	for _, line := range llamaflags.Warnings(f.flags) {
		note(line)
	}
}

// defineContext adds -c, whose default and meaning differ between commands.
func (f *modelFlags) defineContext(fs *pflag.FlagSet, value, least int, usage string) {
	intVar(fs, &f.ctx, "ctx-size", "c", value, least, 1<<28, usage)
	if value < 0 {
		fs.Lookup("ctx-size").DefValue = "" // the number is internal; the usage describes it
	}
}

// defineShift adds the flags about contexts that are full, for commands that generate texts.
func (f *modelFlags) defineShift(fs *pflag.FlagSet) {
	switchVar(fs, &f.shift, "context-shift", false, "when the context is full, discard the older half and continue; --no-context-shift ends the text")
	intVar(fs, &f.keep, "keep", "", 0, -1, 1<<28, "tokens of the prompt to keep then, besides BOS; -1 is all")
}

// kept returns how many first tokens stay.
func (f *modelFlags) kept(tok *tokenizer.Tokenizer) int { return tok.Kept(f.keep) }

// kvTypeVar defines a flag for the type of keys or values.
func kvTypeVar(fs *pflag.FlagSet, p *string, name string, types []string, usage string) {
	*p = types[0]
	fs.Var(&kvTypeValue{choiceValue{p, types}, name, ""}, name, usage+": "+strings.Join(types, ", "))
}

// A kvTypeValue also accepts llama.cpp's types without kernels here, and replaces them
// with the smallest type of at least the same precision.
type kvTypeValue struct {
	choiceValue
	name, asked string
}

var nearestKVType = map[string]string{"q4_1": "q4_0", "iq4_nl": "q4_0", "q5_0": "q8_0", "q5_1": "q8_0"}

func (v *kvTypeValue) Set(s string) error {
	v.asked = ""
	if near, ok := nearestKVType[strings.ToLower(s)]; ok {
		v.asked, s = s, near
	}
	return v.choiceValue.Set(s)
}

// Warning reports that the requested type was replaced.
func (v *kvTypeValue) Warning() string {
	if v.asked == "" {
		return ""
	}
	return fmt.Sprintf("--%s %s: %s is used, the nearest of %s", v.name, v.asked, *v.p, strings.Join(v.choices, ", "))
}

// modelVar defines the flag that names a model, and those about models that are downloaded.
func modelVar(fs *pflag.FlagSet, p *string, usage string) *hubFlags {
	v := &modelValue{p, &hubFlags{}}
	fs.VarP(v, "model", "m", usage)
	v.hub.define(fs)
	return v.hub
}

// A modelValue must not be empty when set: -m "$MODEL" with MODEL unset is a mistake.
type modelValue struct {
	name *string
	hub  *hubFlags
}

func (v *modelValue) Set(s string) error {
	*v.name = s
	return acceptModel(s)
}

func (v *modelValue) String() string {
	if v.name == nil {
		return ""
	}
	return *v.name
}

func (v *modelValue) Type() string { return "FILE" }

// locate replaces the name of a model by the path of its file.
func (v *modelValue) locate(cmd *cobra.Command) error {
	other, err := v.hub.named()
	if err != nil {
		return err
	}
	if other != "" && *v.name != "" {
		return usagef("-m %s and another flag, for %s, both name a model; give one", *v.name, other)
	}
	at, err := v.hub.locate(cmd, cmp.Or(other, *v.name), other != "")
	*v.name = at.path
	return err
}

func acceptModel(s string) error {
	if s == "" {
		return errors.New("want the path of a GGUF file, or " + demo.Name)
	}
	return nil
}

var errNoModel = usagef("no model; give one with -m FILE or -m hf.co/ORG/REPO, or -m %s for the embedded demo model", demo.Name)

// required returns an error where no model is named.
func (f *modelFlags) required() error {
	if f.path == "" {
		return errNoModel
	}
	return nil
}

// openFile opens the model called name: the built-in demo, the path of a file, or a folder with a checkpoint.
func openFile(name string) (*model.File, error) {
	switch {
	case name == demo.Name:
		return model.OpenBytes(name, demo.GGUF())
	case convert.Is(name):
		return checkpoints.open(name)
	}
	if fi, err := os.Stat(name); err == nil && fi.IsDir() {
		return nil, notModel(name)
	}
	return model.OpenFile(name)
}

// notModel is the error for a folder in the place of a model.
func notModel(dir string) error {
	advice := ""
	if files, err := filepath.Glob(filepath.Join(dir, "*.gguf")); err == nil && len(files) > 0 {
		advice = ", such as " + files[0]
	}
	return fmt.Errorf("%s is a folder without a checkpoint, which has config.json; give a GGUF file%s", dir, advice)
}

// beyond says that a context is longer than the texts that a model was trained with; empty where it is not, or where metadata
// in place of the file's may be why.
func beyond(ctx int, cfg *model.Config, over overrides) string {
	if ctx <= cfg.NCtx || len(over) > 0 {
		return ""
	}
	return fmt.Sprintf("the context has %d tokens and the model was trained with %d: what it says behind them may make no sense; --rope-scaling yarn with --rope-scale makes it longer", ctx, cfg.NCtx)
}

// machine returns the machine, restricted by the flags.
func (f *modelFlags) machine() (*machine.Machine, error) {
	m, err := machine.Read()
	if err != nil {
		return nil, err
	}
	m.Pinning = f.cpus.pinning
	if only := f.cpus.ids(); only != nil {
		if err := m.Restrict(only); err != nil {
			return nil, usagef("--cpu-mask, --cpu-range: %w", err)
		}
	}
	return m, nil
}

// device returns the device configuration: the machine, restricted by the flags.
func (f *modelFlags) device() (engine.DeviceConfig, error) {
	m, err := f.machine()
	if err != nil {
		return engine.DeviceConfig{}, err
	}
	c := engine.DeviceConfig{Threads: f.threads, Budget: mem.NewBudget(engine.Limit(m, f.memory))}
	if c.Threads == 0 {
		c.Threads = m.Threads()
	}
	if c.Place = m.Place(c.Threads); f.cpus.ids() != nil && m.WorkerCPUs(c.Threads) == nil {
		return engine.DeviceConfig{}, usagef("-t %d: --cpu-mask and --cpu-range name fewer CPUs that this process may use; give fewer threads or more CPUs", c.Threads)
	}
	return c, nil
}

// newDevice returns a device configured by the flags. What the program itself takes,
// with the tokenizers that were read, counts from here on.
func (f *modelFlags) newDevice() (*engine.Device, error) {
	c, err := f.device()
	if err != nil {
		return nil, err
	}
	d, err := engine.NewDevice(c)
	if err != nil {
		return nil, err
	}
	if err := d.CountProgram(); err != nil {
		d.Close()
		return nil, err
	}
	return d, nil
}

// config returns the engine's Config without the Device, for a model whose trained
// context is modelCtx.
func (f *modelFlags) config(modelCtx int) (engine.Config, error) {
	k, err := kvcache.ParseType(f.typeK)
	if err != nil {
		return engine.Config{}, err
	}
	v, err := kvcache.ParseType(f.typeV)
	if err != nil {
		return engine.Config{}, err
	}
	var tiers kvcache.Tiers
	if f.tiers != "" {
		if tiers, err = kvcache.ParseTiers(f.tiers); err != nil {
			return engine.Config{}, usagef("--kv-tiers: %w", err)
		}
		if f.flags.Changed("cache-type-k") || f.flags.Changed("cache-type-v") {
			return engine.Config{}, usagef("--kv-tiers and -ctk or -ctv: each says in which types keys and values are kept; give one")
		}
	}
	residency, err := model.ParseResidency(f.weights)
	if err != nil {
		return engine.Config{}, err
	}
	return engine.Config{
		Ctx:       f.context(modelCtx),
		Batch:     min(f.pass(), f.context(modelCtx)),
		KV:        kvcache.Types{K: k, V: v},
		Tiers:     tiers,
		Residency: residency,
		Vectors:   f.vectors,
		MTP:       f.mtp,
		Shift:     f.shift,
		Sequences: f.sequences,
	}, nil
}

// pass returns the maximum tokens of one forward pass.
func (f *modelFlags) pass() int {
	switch {
	case f.batch == 0 && f.ubatch == 0:
		return defaultBatch
	case f.batch == 0 || f.ubatch == 0:
		return f.batch + f.ubatch
	}
	return min(f.batch, f.ubatch)
}

// context returns the context in tokens, for a model whose trained context is modelCtx.
func (f *modelFlags) context(modelCtx int) int {
	switch f.ctx {
	case -1:
		return min(modelCtx, defaultCtx)
	case 0:
		return modelCtx
	}
	return f.ctx
}

// A single is an engine with a device of its own, closed with it.
type single struct {
	*engine.Engine
	drafts *engine.Engine // drafts for it; nil: none
	device *engine.Device
	took   time.Duration // to load
}

func (s *single) Close() error {
	if s.drafts != nil {
		s.drafts.Close()
	}
	err := s.Engine.Close()
	s.device.Close()
	return err
}

// configFor is config for the model in file, with a Device configured by the flags.
func (f *modelFlags) configFor(file *model.File) (engine.Config, error) {
	head, err := file.Config()
	if err != nil {
		return engine.Config{}, fmt.Errorf("%s: %w", f.path, err)
	}
	c, err := f.config(head.NCtx)
	if err != nil {
		return c, err
	}
	c.Device, err = f.newDevice()
	return c, err
}

// open loads the model in file, with a progress bar if stderr is a terminal; the first pass may begin before all is loaded. It
// takes ownership of file.
func (f *modelFlags) open(file *model.File, stderr io.Writer) (*single, error) {
	return f.drafted(file, stderr, &draftFlags{}, nil, nil)
}

// drafted is open with a draft model, if there is one, for the vocabulary of the model in file.
func (f *modelFlags) drafted(file *model.File, stderr io.Writer, d *draftFlags, tok *tokenizer.Tokenizer, note func(string)) (*single, error) {
	cfg, err := f.configFor(file)
	if err != nil {
		file.Close()
		return nil, err
	}
	bar := newLoadBar(stderr)
	s := &single{device: cfg.Device}
	s.Engine, s.drafts, err = d.opened(func() (*engine.Engine, error) {
		c, start := cfg, time.Now()
		c.Early, c.Progress = true, bar.update
		eng, err := engine.New(file, c)
		if err != nil {
			bar.done()
		}
		s.took = time.Since(start)
		return eng, err
	}, f.path, tok, cfg, note, undrafted(note))
	if err != nil {
		file.Close()
		cfg.Device.Close()
		return nil, err
	}
	return s, nil
}

// loadTokenizer reads the vocabulary of the model called name.
func loadTokenizer(name string) (*tokenizer.Tokenizer, error) {
	h, err := readHead(name, false, nil)
	if err != nil {
		return nil, err
	}
	return h.tok, h.file.Close()
}

// A head is a model file without its weights. The file stays open, and the loader takes
// ownership of it: this ensures that tokenizer and weights come from the same file even
// if the path is replaced meanwhile.
type head struct {
	file *model.File
	tok  *tokenizer.Tokenizer
	cfg  *model.Config // nil unless the model is to be run
}

// readHead reads the head of the model called name, with other metadata than the file's where over has it, and with
// its Config, if it is to be run.
func readHead(name string, runs bool, over overrides) (h *head, err error) {
	h = &head{}
	if h.file, err = openFile(name); err != nil {
		return nil, err
	}
	if err = over.apply(h.file.GGUF); err == nil {
		err = h.read(runs)
	}
	if err != nil {
		h.file.Close()
		return nil, fmt.Errorf("%s: %w", name, err)
	}
	return h, nil
}

func (h *head) read(runs bool) (err error) {
	if runs {
		if h.cfg, err = h.file.Config(); err != nil {
			return err
		}
	}
	if h.tok, err = tokenizer.New(h.file.GGUF); err != nil {
		return err
	}
	// The reverse is common: embeddings are padded.
	if runs && h.tok.Len() > h.cfg.NVocab {
		return fmt.Errorf("the vocabulary has %d tokens and token_embd.weight %d rows, want a row for each; convert the model again", h.tok.Len(), h.cfg.NVocab)
	}
	return nil
}
