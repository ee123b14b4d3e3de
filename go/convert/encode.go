package convert

import (
	"fmt"
	"strings"

	"github.com/quern-llm/quern/go/gguf"
	"github.com/quern-llm/quern/go/quant"
)

// A kind is what a file's matrices are to be: all of one type, or of the types that a mix chooses.
type kind struct {
	typ   gguf.Type
	mix   quant.Mix
	mixed bool
}

// plainTypes are those of which all matrices are.
var plainTypes = []gguf.Type{gguf.F32, gguf.F16, gguf.BF16, gguf.Q8_0}

// CheckType returns an error unless s is a type or a mix that can be written, or auto.
func CheckType(s string) error {
	_, err := parseKind(s, func() gguf.Type { return gguf.F16 })
	return err
}

// parseKind returns the kind called s; the type of auto is computed.
func parseKind(s string, auto func() gguf.Type) (kind, error) {
	if s == "" || strings.EqualFold(s, "auto") {
		return kind{typ: auto()}, nil
	}
	for _, t := range plainTypes {
		if strings.EqualFold(s, t.String()) {
			return kind{typ: t}, nil
		}
	}
	m, err := quant.ParseMix(s)
	if err != nil {
		return kind{}, fmt.Errorf("weights cannot be written as %.40q; want auto, f32, f16, bf16, q8_0 or one of %s", s, strings.Join(quant.Mixes(), " "))
	}
	return kind{typ: auto(), mix: m, mixed: true}, nil
}

// name returns the name of a kind.
func (k kind) name() string {
	if k.mixed {
		return k.mix.Name
	}
	return k.typ.String()
}

// fileType returns llama.cpp's number of a kind.
func (k kind) fileType() (uint32, bool) {
	if k.mixed {
		return k.mix.Kind, true
	}
	m, err := quant.ParseMix(k.typ.String())
	return m.Kind, err == nil
}

// choose gives the tensors of a file the types that a mix has for them. Those that are of blocks already stay, and so do
// those that are read as floats.
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
		if t.Bytes != nil || t.Typ == gguf.F32 && (len(t.Dims) < 2 || floats(t.Name)) {
			continue
		}
		if t.Typ = to[t.Name]; !quant.CanEncode(t.Typ, int(t.Dims[0])) {
			return fmt.Errorf("tensor %s: rows of %d cannot be %s", t.Name, t.Dims[0], t.Typ)
		}
		if quant.NeedsImportance(t.Typ) {
			return fmt.Errorf("%s needs to know which weights count: convert to f16, and then quantize with an importance matrix (see %q)", m.Name, "quern help quantize")
		}
	}
	return nil
}

// fits reports whether numbers are in the range of a type: F16 has a narrower one than they come in, and so have the scales of
// blocks.
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
