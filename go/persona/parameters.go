package persona

import (
	"errors"
	"fmt"
	"maps"
	"math"
	"slices"
	"strconv"
	"strings"
	"unicode/utf8"

	"github.com/go-json-experiment/json"
	"github.com/go-json-experiment/json/jsontext"
)

// Parameters are settings of requests, by Ollama's names. A value is a float64, an int64, a bool or a []string.
type Parameters map[string]any

// A kind is the type of a parameter's value.
type kind int

const (
	number kind = iota
	whole
	onOff
	texts
)

var wanted = [...]string{
	number: "a number such as 0.7", whole: "a whole number", onOff: "true or false", texts: "a text, or an array of texts",
}

// kinds are the parameters that there are.
var kinds = map[string]kind{
	"temperature": number, "top_k": whole, "top_p": number, "min_p": number, "typical_p": number, "seed": whole,
	"repeat_penalty": number, "repeat_last_n": whole, "presence_penalty": number, "frequency_penalty": number,
	"stop": texts, "mirostat": whole, "mirostat_tau": number, "mirostat_eta": number, "num_predict": whole,
}

// idle are those that are stored without effect: they say how a model is loaded, which the flags of the server do, or
// are of samplers that Ollama itself has no more.
var idle = map[string]kind{
	"num_ctx": whole, "num_keep": whole, "num_batch": whole, "num_gpu": whole, "main_gpu": whole, "num_thread": whole,
	"num_gqa": whole, "use_mmap": onOff, "use_mlock": onOff, "low_vram": onOff, "f16_kv": onOff, "numa": onOff,
	"vocab_only": onOff, "logits_all": onOff, "penalize_newline": onOff, "tfs_z": number, "draft_num_predict": whole,
	"rope_frequency_base": number, "rope_frequency_scale": number,
}

const (
	maxTexts = 64      // of a parameter
	maxWhole = 1 << 53 // beyond it floats skip integers
)

// Names returns the names of the parameters that have an effect.
func Names() []string { return slices.Sorted(maps.Keys(kinds)) }

// kindOf returns the kind of a parameter, and whether there is such a one.
func kindOf(name string) (kind, bool) {
	if k, ok := kinds[name]; ok {
		return k, true
	}
	k, ok := idle[name]
	return k, ok
}

// errUnknown is the error of a parameter that there is not.
func errUnknown(name string) error {
	return fmt.Errorf("there is no parameter %.40q, want one of %s", name,
		strings.Join(Names(), ", "))
}

// Add sets a parameter as a line of a Modelfile does: further texts of one that takes several are added.
func (p *Parameters) Add(name, value string) error {
	k, ok := kindOf(name)
	if !ok {
		return errUnknown(name)
	}
	var v any
	var err error
	switch k {
	case number:
		v, err = strconv.ParseFloat(value, 64)
	case whole:
		v, err = strconv.ParseInt(value, 10, 64)
	case onOff:
		v, err = strconv.ParseBool(value)
	case texts:
		before, _ := (*p)[name].([]string)
		v = append(slices.Clip(before), value)
	}
	if err == nil {
		v, err = settled(k, v)
	}
	if err != nil {
		return fmt.Errorf("%s: got %.40q, want %s", name, value, wanted[k])
	}
	if *p == nil {
		*p = Parameters{}
	}
	(*p)[name] = v
	return nil
}

// settled returns a value in the form that parameters of a kind have, or an error if it cannot be one.
func settled(k kind, v any) (any, error) {
	wrong := errors.New("a value of another kind")
	switch v := v.(type) {
	case float64:
		if k == whole && v == math.Trunc(v) && math.Abs(v) <= maxWhole {
			return int64(v), nil
		}
		if k == number && !math.IsNaN(v) && !math.IsInf(v, 0) {
			return v, nil
		}
	case int64:
		if k == whole && -maxWhole <= v && v <= maxWhole {
			return v, nil
		}
	case bool:
		if k == onOff {
			return v, nil
		}
	case string:
		if k == texts {
			return settled(k, []string{v})
		}
	case []any:
		all := []string{}
		for _, one := range v {
			s, ok := one.(string)
			if !ok {
				return nil, wrong
			}
			all = append(all, s)
		}
		return settled(k, all)
	case []string:
		if k == texts && len(v) <= maxTexts && !slices.Contains(v, "") &&
			!slices.ContainsFunc(v, func(s string) bool { return !utf8.ValidString(s) }) {
			return v, nil
		}
	}
	return nil, wrong
}

// ReadParameters reads a JSON object of parameters. Members that are null count as absent.
func ReadParameters(object []byte) (Parameters, error) {
	p := Parameters{}
	if err := json.Unmarshal(object, &p); err != nil {
		return nil, errors.New("want an object with parameters by name")
	}
	maps.DeleteFunc(p, func(_ string, v any) bool { return v == nil })
	return p, p.check()
}

// check returns an error unless all parameters are known and of their kinds, and brings their values to the form that
// they have.
func (p Parameters) check() error {
	for _, name := range slices.Sorted(maps.Keys(p)) {
		k, ok := kindOf(name)
		if !ok {
			return errUnknown(name)
		}
		v, err := settled(k, p[name])
		if err != nil {
			shown, _ := json.Marshal(p[name])
			return fmt.Errorf("%s: got %.40s, want %s", name, shown, wanted[k])
		}
		p[name] = v
	}
	return nil
}

// Idle returns the names of those that have no effect.
func (p Parameters) Idle() []string {
	var names []string
	for _, name := range slices.Sorted(maps.Keys(p)) {
		if _, ok := idle[name]; ok {
			names = append(names, name)
		}
	}
	return names
}

// Each calls f for each parameter that has an effect, in the order of their names; several times for one of several
// texts.
func (p Parameters) Each(f func(name, value string)) {
	p.each(func(name, value string) {
		if _, ok := idle[name]; !ok {
			f(name, value)
		}
	})
}

func (p Parameters) each(f func(name, value string)) {
	for _, name := range slices.Sorted(maps.Keys(p)) {
		switch v := p[name].(type) {
		case []string:
			for _, one := range v {
				f(name, one)
			}
		case float64:
			f(name, strconv.FormatFloat(v, 'g', -1, 64))
		default:
			f(name, fmt.Sprint(v))
		}
	}
}

// Lines returns the parameters as "ollama show" has them: a name and a value in each line.
func (p Parameters) Lines() string {
	var b strings.Builder
	p.each(func(name, value string) {
		if kinds[name] == texts && name == "stop" {
			value = strconv.Quote(value)
		}
		fmt.Fprintf(&b, "%-30s %s\n", name, value)
	})
	return strings.TrimSuffix(b.String(), "\n")
}

// Fields returns those with an effect as a JSON object of the fields of a request.
func (p Parameters) Fields() jsontext.Value {
	m := map[string]any{}
	for name, v := range p {
		if _, ok := kinds[name]; !ok {
			continue
		}
		if name == "num_predict" {
			n, _ := v.(int64)
			if n == -2 { // as many as the context holds
				n = -1
			}
			name, v = "n_predict", n
		}
		m[name] = v
	}
	b, _ := json.Marshal(m, json.Deterministic(true)) // of values that were settled
	return b
}
