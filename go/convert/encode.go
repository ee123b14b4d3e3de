package convert

import (
	"fmt"
	"strings"

	"github.com/quern-llm/quern/go/gguf"
	"github.com/quern-llm/quern/go/quant"
)

// A kind says which type the matrices of a file get: one type for all, or those that a mix chooses.
type kind struct {
	typ   gguf.Type
	auto  bool // the types are chosen by those of the checkpoint
	mix   quant.Mix
	mixed bool
}

// plainTypes are the types that all matrices of a file can have.
var plainTypes = []gguf.Type{gguf.F32, gguf.F16, gguf.BF16, gguf.Q8_0}

// CheckType returns an error unless s is auto, or a type or a mix that can be written.
func CheckType(s string) error {
	_, err := parseKind(s, func() gguf.Type { return gguf.F16 })
	return err
}

// parseKind returns the kind of this name. For auto and for mixes, auto computes the type of what is read.
func parseKind(s string, auto func() gguf.Type) (kind, error) {
	if s == "" || strings.EqualFold(s, "auto") {
		return kind{typ: auto(), auto: true}, nil
	}
	for _, t := range plainTypes {
		if strings.EqualFold(s, t.String()) {
			return kind{typ: t}, nil
		}
	}
	m, err := quant.ParseMix(s)
	if err != nil {
		return kind{}, fmt.Errorf("weights cannot be written as %.40q; want auto, f32, f16, bf16, q8_0 or one of %s",
			s, strings.Join(quant.Mixes(), " "))
	}
	return kind{typ: auto(), mix: m, mixed: true}, nil
}

// name returns the name of the kind.
func (k kind) name() string {
	if k.mixed {
		return k.mix.Name
	}
	return k.typ.String()
}

// fileType returns llama.cpp's number of the kind, if it has one.
func (k kind) fileType() (uint32, bool) {
	if k.mixed {
		return k.mix.Kind, true
	}
	m, err := quant.ParseMix(k.typ.String())
	return m.Kind, err == nil
}

// choose gives tensors the types that a mix has for them. Tensors that are copied as blocks keep theirs, as do those
// that must stay F32.
func (o *output) choose(m quant.Mix) error {
	f, err := o.outline()
	if err != nil {
		return err
	}
	choices, err := quant.Choose(f, m, quant.Options{})
	if err != nil {
		return err
	}
	to := map[string]gguf.Type{}
	for _, c := range choices {
		to[c.Name] = c.To
	}
	for _, t := range o.targets {
		if t.Bytes != nil || t.Type == gguf.F32 && (len(t.Dims) < 2 || floats(t.Name)) {
			continue
		}
		if t.Type = to[t.Name]; !quant.CanEncode(t.Type, int(t.Dims[0])) {
			return fmt.Errorf("tensor %s: rows of %d cannot be %s", t.Name, t.Dims[0], t.Type)
		}
		if quant.NeedsImportance(t.Type) {
			return fmt.Errorf("%s needs to know which weights count: convert to f16, and then quantize with an importance matrix (see %q)", m.Name, "quern help quantize")
		}
	}
	return nil
}

// fits reports whether a type can hold these numbers: the range of F16, and of blocks with F16 scales, is narrower than
// that of checkpoints.
func fits(t gguf.Type, v []float32) bool {
	if t == gguf.F32 || t == gguf.BF16 {
		return true
	}
	for _, x := range v {
		if x >= 65520 || x <= -65520 {
			return false
		}
	}
	return true
}
