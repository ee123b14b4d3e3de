package main

import (
	"cmp"
	"errors"
	"fmt"
	"io"
	"os"
	"strconv"
	"strings"

	"github.com/spf13/cobra"
	"github.com/spf13/pflag"

	"github.com/quern-llm/quern/go/convert"
	"github.com/quern-llm/quern/go/demo"
	"github.com/quern-llm/quern/go/internal/llamaflags"
	"github.com/quern-llm/quern/go/kernel"
	"github.com/quern-llm/quern/go/kvcache"
	"github.com/quern-llm/quern/go/launch"
	"github.com/quern-llm/quern/go/model"
	"github.com/quern-llm/quern/go/tokenizer"
)

// modelFlags are the flags of every command that runs a model.
type modelFlags struct {
	path string // demo.Name or demo.Vision for a built-in one; empty if none is named
	openFlags
	deviceFlags
	files *launch.Files
	hub   *hubFlags
}

// deviceFlags say which part of the machine models have.
type deviceFlags struct {
	threads int // 0 is the default
	cpus    cpuFlags
	memory  uint64
}

// openFlags say how a model is opened.
type openFlags struct {
	ctx          int // -1 is the default, 0 the model's own
	batch        int // 0 is the default
	ubatch       int // the same
	typeK, typeV string
	tiers        string // of keys and values by age; empty: none
	weights      string
	activations  string // bits
	sparse       string
	overrides    launch.Overrides // of the file's metadata
	quantize     quantizeValue
	shift        bool // contexts that are full
	keep         int  // first tokens of a prompt that stay then; -1 is all
	flags        *pflag.FlagSet
}

// define adds all flags but -c, see defineContext.
func (f *modelFlags) define(fs *pflag.FlagSet) {
	f.defineMemory(fs)
	f.defineThreads(fs)
}

// defineThreads adds the flags about threads.
func (f *deviceFlags) defineThreads(fs *pflag.FlagSet) {
	intVar(fs, &f.threads, "threads", "t", 0, 1, kernel.MaxThreads, "threads (default: see \"quern doctor\")")
	auto(fs, "threads", &f.threads, "-1", "0")
	f.cpus.define(fs)
}

// defineMemory adds the flags that determine memory use.
func (f *modelFlags) defineMemory(fs *pflag.FlagSet) {
	f.files = newFiles()
	f.hub = modelVar(fs, &f.path, "GGUF `FILE` (the first of a split model), folder of a Hugging Face checkpoint, or model to download, such as hf.co/ORG/REPO; demo is the embedded demo model")
	f.hub.fits = f.fits
	f.openFlags.define(fs)
	f.defineLimit(fs)
}

// defineLimit adds the flag about memory.
func (f *deviceFlags) defineLimit(fs *pflag.FlagSet) {
	bytesVar(fs, &f.memory, "memory", "memory limit, such as 4G (default: see \"quern doctor\")")
}

// define adds all flags but those about contexts.
func (f *openFlags) define(fs *pflag.FlagSet) {
	f.flags = fs
	types := kvcache.TypeNames()
	fs.Var(&f.quantize, "quantize", "`TYPE` to convert the weights of a checkpoint folder to when it is loaded, such as Q4_K_M or q8_0 (default: no conversion)")
	intVar(fs, &f.batch, "batch-size", "b", 0, 1, 1<<16, "maximum tokens per forward pass")
	fs.Lookup("batch-size").DefValue = strconv.Itoa(launch.DefaultBatch)
	intVar(fs, &f.ubatch, "ubatch-size", "", 0, 1, 1<<16, "as --batch-size; the smaller of the two applies")
	fs.Lookup("ubatch-size").Hidden = true
	kvTypeVar(fs, &f.typeK, "cache-type-k", types, "type of the keys in the KV cache")
	kvTypeVar(fs, &f.typeV, "cache-type-v", types, "type of the values in the KV cache")
	alias(fs, "cache-type-k", "ctk")
	alias(fs, "cache-type-v", "ctv")
	fs.StringVar(&f.tiers, "kv-tiers", "", "`TYPES` of the KV cache by age, such as 256:i16,1024:q8_0,*:q4_0: the last 256 positions in i16, older ones up to 1024 in q8_0, all others in q4_0")
	fs.StringVar(&f.sparse, "sparse-prompts", "", "`PART[:FROM]`: from position FROM (default 4096) on, prompts read the blocks of keys that have this part of the weight by an estimate, such as 0.95, and not all: long ones take less time, at some loss")
	choiceVar(fs, &f.activations, "activations", "8", []string{"8", "16"}, "bits of what quantized weights are multiplied with: 16 rounds less, and takes longer, prompts most")
	choiceVar(fs, &f.weights, "weights", "auto", []string{"auto", "packed", "mapped", "streamed"}, "how weights are held in memory")
	defineOverrides(fs, &f.overrides)
}

// warn reports each flag that was given and does not do what its name says.
func (f *modelFlags) warn(note func(string)) {
	for _, line := range llamaflags.Warnings(f.flags) {
		note(line)
	}
}

// defineContext adds -c, whose default and meaning differ between commands.
func (f *openFlags) defineContext(fs *pflag.FlagSet, value, least int, usage string) {
	intVar(fs, &f.ctx, "ctx-size", "c", value, least, 1<<28, usage)
	if value < 0 {
		fs.Lookup("ctx-size").DefValue = "" // the number is internal; the usage describes it
	}
}

// defineShift adds the flags about contexts that are full, for commands that generate texts.
func (f *openFlags) defineShift(fs *pflag.FlagSet) {
	switchVar(fs, &f.shift, "context-shift", false, "when the context is full, discard the older half and continue; --no-context-shift ends the text")
	intVar(fs, &f.keep, "keep", "", 0, -1, 1<<28, "tokens of the prompt to keep then, besides BOS; -1 is all")
}

// kept returns how many first tokens stay.
func (f *openFlags) kept(tok *tokenizer.Tokenizer) int { return tok.Kept(f.keep) }

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
	*v.name, v.hub.persona = at.path, at.persona
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

// newFiles returns what opens models by name. Checkpoints that are converted for it show a bar on a terminal.
func newFiles() *launch.Files {
	return &launch.Files{Converting: barOn(os.Stderr, "converting"), Note: notes(os.Stderr)}
}

// openFile opens the model called name: a built-in demo, the path of a file, or a folder with a checkpoint.
func openFile(name string) (*model.File, error) { return newFiles().Open(name, "") }

// device returns which part of the machine the flags give to models.
func (f *deviceFlags) device() launch.DeviceSettings {
	return launch.DeviceSettings{Threads: f.threads, CPUs: f.cpus.ids(), Pinning: f.cpus.pinning, NUMA: f.cpus.mode(), Nodes: f.cpus.nodes, Memory: f.memory}
}

// settings returns the flags as settings of a model.
func (f *openFlags) settings() (s launch.Settings, err error) {
	s = launch.Settings{Ctx: f.ctx, Batch: f.pass(), Shift: f.shift, Overrides: f.overrides, Quantize: string(f.quantize), Fine: f.activations == "16"}
	if s.KV.K, err = kvcache.ParseType(f.typeK); err != nil {
		return s, err
	}
	if s.KV.V, err = kvcache.ParseType(f.typeV); err != nil {
		return s, err
	}
	if f.tiers != "" {
		if s.Tiers, err = kvcache.ParseTiers(f.tiers); err != nil {
			return s, usagef("--kv-tiers: %w", err)
		}
		if f.flags.Changed("cache-type-k") || f.flags.Changed("cache-type-v") {
			return s, usagef("--kv-tiers and -ctk or -ctv: each says in which types keys and values are kept; give one")
		}
	}
	if s.Sparse, err = model.ParseSparse(f.sparse); err != nil {
		return s, usagef("--sparse-prompts: %w", err)
	}
	s.Residency, err = model.ParseResidency(f.weights)
	return s, err
}

// pass returns the maximum tokens of one forward pass; 0 is the default.
func (f *openFlags) pass() int {
	if f.batch == 0 || f.ubatch == 0 {
		return f.batch + f.ubatch
	}
	return min(f.batch, f.ubatch)
}

// readHead reads the head of the model that the flags name.
func (f *modelFlags) readHead() (*launch.Head, error) {
	s, err := f.settings()
	if err != nil {
		return nil, err
	}
	return f.files.ReadHead(f.path, s)
}

// readAdapted is readHead of a model that reads texts, with its adapters.
func (f *modelFlags) readAdapted(a *adapterFlags) (*launch.Head, error) {
	s, err := f.settings()
	if err != nil {
		return nil, err
	}
	s.Vectors = true
	if s.Adapters, err = a.list(); err != nil {
		return nil, err
	}
	return f.files.ReadHead(f.path, s)
}

// readWith is readHead with what drafts for the model, its adapters and its projector.
func (f *modelFlags) readWith(d *draftFlags, a *adapterFlags, p *projectorFlags) (*launch.Head, error) {
	s, err := f.settings()
	if err != nil {
		return nil, err
	}
	s.Draft = d.settings()
	p.apply(&s)
	if s.Adapters, err = a.list(); err != nil {
		return nil, err
	}
	return f.files.ReadHead(f.path, s)
}

// open loads a model, with a progress bar if stderr is a terminal. It takes ownership of h.
func (f *deviceFlags) open(h *launch.Head, stderr io.Writer) (*launch.Model, error) {
	bar := newLoadBar(stderr)
	m, err := h.OpenAlone(f.device(), launch.Events{Progress: bar.update, Note: notes(stderr)})
	if err != nil {
		bar.done()
	}
	return m, err
}

// A quantizeValue is the type that weights of checkpoints are converted to; empty: they stay as they are.
type quantizeValue string

func (v *quantizeValue) Set(s string) error {
	if err := convert.CheckType(s); err != nil {
		return err
	}
	*v = quantizeValue(s)
	return nil
}

func (v *quantizeValue) String() string { return string(*v) }
func (v *quantizeValue) Type() string   { return "TYPE" }
