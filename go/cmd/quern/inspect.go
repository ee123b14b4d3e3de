package main

import (
	"cmp"
	"fmt"
	"math"
	"reflect"
	"slices"

	"github.com/spf13/cobra"

	"github.com/quern-llm/quern/go/engine"
	"github.com/quern-llm/quern/go/gguf"
	"github.com/quern-llm/quern/go/model"
)

// An inspection is the result of "quern inspect". Its fields are the JSON output.
type inspection struct {
	Path      string         `json:"path"`
	Version   uint32         `json:"version"`
	Shards    int            `json:"shards"`
	Alignment uint64         `json:"alignment"`
	FileBytes uint64         `json:"file_bytes"` // of all shards
	Params    uint64         `json:"parameters"`
	Metadata  []metadataFact `json:"metadata"`
	Tensors   []tensorFact   `json:"tensors"`
	Types     []typeFact     `json:"types"` // most bytes first
	Projector *projectorFact `json:"projector,omitempty"`
	Memory    *memoryNeed    `json:"memory,omitempty"`
	Refusal   string         `json:"unsupported,omitempty"` // why Quern cannot run it
}

// A projectorFact is what a file of encoders is for.
type projectorFact struct {
	Vision string `json:"vision,omitempty"` // the kind of the encoder of pictures
	Audio  string `json:"audio,omitempty"`  // of sounds
	Width  uint64 `json:"width"`            // of the models that it is for
}

type metadataFact struct {
	Key   string `json:"key"`
	Type  string `json:"type"`
	Count *int   `json:"count,omitempty"` // of the whole array
	Value any    `json:"value"`           // of an array, its beginning
}

type tensorFact struct {
	Name   string   `json:"name"`
	Type   string   `json:"type"`
	Dims   []uint64 `json:"dims"` // the contiguous one first
	Bytes  uint64   `json:"bytes"`
	Offset uint64   `json:"offset"`
	Shard  int      `json:"shard"`
}

type typeFact struct {
	Type    string `json:"type"`
	Tensors int    `json:"tensors"`
	Params  uint64 `json:"parameters"`
	Bytes   uint64 `json:"bytes"`
}

// shownElems is how many elements of an array are shown: vocabularies have 100 000.
const shownElems = 8

func newInspectCommand() *cobra.Command {
	var (
		flags  modelFlags
		asJSON bool
	)
	cmd := &cobra.Command{
		Use:   "inspect FILE",
		Short: "Show the contents of a GGUF file and the memory it will need",
		Long: `Show a GGUF file's metadata and tensors, the bytes of each weight type, and the
memory that "quern run" will need with the same -c, -b, -ctk and --weights. For a
split model, give the first file. The names of "quern pull" work too. demo is the
embedded demo model; a file of that name is ./demo.`,
		Args: arguments(0, 1),
		RunE: func(cmd *cobra.Command, args []string) error {
			flags.warn(notes(cmd.ErrOrStderr()))
			if len(args) == 1 {
				at, err := flags.hub.locate(cmd, args[0], false)
				if err != nil {
					return err
				}
				flags.path = at.path
			}
			if err := flags.required(); err != nil {
				return err
			}
			in, err := inspect(&flags)
			if err != nil {
				return err
			}
			if asJSON {
				return printJSON(cmd.OutOrStdout(), in)
			}
			return in.print(cmd.OutOrStdout())
		},
	}
	flags.defineMemory(cmd.Flags())
	flags.defineContext(cmd.Flags(), -1, 0, "tokens of context to count memory for; 0 is the model's own (default: the model's, at most 4096)")
	cmd.Flags().BoolVar(&asJSON, "json", false, "print JSON")
	return cmd
}

// A memoryNeed is the memory that the model needs to run, in bytes.
type memoryNeed struct {
	Ctx         int    `json:"context"`
	Weights     uint64 `json:"weights"` // outside the file
	Checks      uint64 `json:"checks"`  // of weights, before there are keys, values and activations
	KV          uint64 `json:"kv"`      // of a full context
	KVPer1K     uint64 `json:"kv_per_1024_tokens"`
	Activations uint64 `json:"activations"`
	Program     uint64 `json:"program"` // which differs a little from run to run
	Total       uint64 `json:"total"`
	Limit       uint64 `json:"limit"` // what this machine allows
	LimitReason string `json:"limit_reason"`

	mapped bool // the weights stay in the file
}

// inspect reads the model that the flags name. An unsupported model is no error: people
// inspect files to find out why.
func inspect(flags *modelFlags) (*inspection, error) {
	file, err := flags.files.Open(flags.path, string(flags.quantize))
	if err != nil {
		return nil, err
	}
	defer file.Close()
	if err := flags.overrides.Apply(file.GGUF); err != nil {
		return nil, fmt.Errorf("%s: %w", flags.path, err)
	}
	in := &inspection{Path: flags.path, Shards: len(file.Paths), FileBytes: file.Size(),
		Metadata: []metadataFact{}, Tensors: []tensorFact{}, Types: []typeFact{}}
	in.describe(file.GGUF)
	if p, err := file.GGUF.Projector(); err == nil {
		in.Projector = &projectorFact{p.Vision, p.Audio, p.Width}
		in.Refusal = needsModel(p)
		return in, nil
	}
	if in.Memory, err = memoryOf(file, flags); err != nil {
		in.Refusal = err.Error()
	}
	return in, nil
}

// needsModel says why a projector is not run alone.
func needsModel(p gguf.Projector) string {
	return p.String() + "; give it to such a model with --mmproj"
}

func memoryOf(file *model.File, flags *modelFlags) (*memoryNeed, error) {
	head, err := file.Config()
	if err != nil {
		return nil, err
	}
	settings, err := flags.settings()
	if err != nil {
		return nil, err
	}
	cfg := settings.EngineConfig(head)
	device, err := flags.device().Config()
	if err != nil {
		return nil, err
	}
	est, err := engine.Memory(file, device.Threads, cfg)
	if err != nil {
		return nil, err
	}
	need := &memoryNeed{
		Ctx: cfg.Ctx, Weights: est.Weights, Checks: est.Checks, KV: est.KV, KVPer1K: est.KVPer1K,
		Activations: est.Activations, Program: engine.ProgramBytes(device.Budget), mapped: cfg.Residency == model.Mapped,
	}
	need.Total = est.Total() + need.Program
	need.Limit, need.LimitReason = device.Budget.Limit()
	return need, nil
}

// describe fills the fields that come from the file.
func (in *inspection) describe(f *gguf.File) {
	in.Version, in.Alignment = f.Version, f.Alignment
	for _, kv := range f.KVs {
		in.Metadata = append(in.Metadata, metadataOf(kv))
	}
	types := map[gguf.Type]*typeFact{}
	for i := range f.Tensors {
		t := &f.Tensors[i]
		n := uint64(len(t.Data))
		in.Tensors = append(in.Tensors, tensorFact{t.Name, t.Type.String(), t.Dims, n, t.Offset, t.Shard})
		if types[t.Type] == nil {
			types[t.Type] = &typeFact{Type: t.Type.String()}
		}
		types[t.Type].Tensors++
		types[t.Type].Params += t.Elems()
		types[t.Type].Bytes += n
		in.Params += t.Elems()
	}
	for _, t := range types {
		in.Types = append(in.Types, *t)
	}
	slices.SortFunc(in.Types, func(a, b typeFact) int {
		return cmp.Or(cmp.Compare(b.Bytes, a.Bytes), cmp.Compare(a.Type, b.Type))
	})
}

// metadataOf truncates arrays, and converts numbers that JSON cannot represent to
// strings.
func metadataOf(kv gguf.KV) metadataFact {
	v := reflect.ValueOf(kv.Value)
	if v.Kind() != reflect.Slice {
		return metadataFact{Key: kv.Key, Type: v.Kind().String(), Value: plain(kv.Value)}
	}
	of := v.Type().Elem().Kind()
	m := metadataFact{Key: kv.Key, Type: "array of " + of.String()}
	if of == reflect.Interface {
		m.Type = "array of array"
	}
	n := v.Len()
	m.Count = &n
	head := []any{}
	for i := range min(n, shownElems) {
		elem := v.Index(i).Interface()
		if reflect.TypeOf(elem).Kind() == reflect.Slice {
			elem = metadataOf(gguf.KV{Value: elem}).Value
		}
		head = append(head, plain(elem))
	}
	m.Value = head
	return m
}

// plain returns v, or its name if it is a float such as NaN.
func plain(v any) any {
	var f float64
	switch v := v.(type) {
	case float32:
		f = float64(v)
	case float64:
		f = v
	}
	if math.IsNaN(f) || math.IsInf(f, 0) {
		return fmt.Sprint(f)
	}
	return v
}
