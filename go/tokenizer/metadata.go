package tokenizer

import (
	"fmt"
	"math"
	"slices"
)

// prefix begins every key that this package reads, except the model's name.
const prefix = "tokenizer.ggml."

// own begins the keys of what GGUF has none for.
const own = "quern.tokenizer."

// reader reads typed values from metadata and keeps the first error, so that errors are checked once, after
// all values are read.
type reader struct {
	m   Metadata
	err error
}

func (r *reader) fail(format string, args ...any) {
	if r.err == nil {
		r.err = fmt.Errorf(format, args...)
	}
}

// value returns the value of prefix+key. A missing key is an error only if it is required.
func (r *reader) value(key string, required bool) (any, bool) {
	v, ok := r.m.Value(prefix + key)
	if !ok && required {
		r.fail("%s%s is missing: the file holds no complete vocabulary", prefix, key)
	}
	return v, ok
}

func (r *reader) wrongType(key string, v any, want string) {
	r.fail("%s%s is %T, want %s", prefix, key, v, want)
}

// str returns a string, or "" if the key is missing.
func (r *reader) str(key string, required bool) string {
	v, ok := r.value(key, required)
	if !ok {
		return ""
	}
	s, ok := v.(string)
	if !ok {
		r.wrongType(key, v, "a string")
	}
	return s
}

// strs returns a required list of strings.
func (r *reader) strs(key string) []string {
	v, ok := r.value(key, true)
	if !ok {
		return nil
	}
	s, ok := v.([]string)
	if !ok {
		r.wrongType(key, v, "an array of strings")
	}
	return s
}

// flag returns a bool, or `otherwise` if the key is missing; set reports whether it is present.
func (r *reader) flag(key string, otherwise bool) (value, set bool) {
	v, ok := r.value(key, false)
	if !ok {
		return otherwise, false
	}
	b, ok := v.(bool)
	if !ok {
		r.wrongType(key, v, "a bool")
	}
	return b, true
}

// id returns the id of a special token, or none. Some writers use the value with all bits set for an absent
// token.
func (r *reader) id(key string, nVocab int) int32 {
	v, ok := r.value(key, false)
	if !ok {
		return none
	}
	n, ok := integer(v)
	switch {
	case !ok:
		r.wrongType(key, v, "an integer")
	case n == -1 || n == math.MaxUint32:
	case n < 0 || n >= int64(nVocab):
		r.fail("%s%s is %d, outside the vocabulary of %d tokens", prefix, key, n, nVocab)
	default:
		return int32(n)
	}
	return none
}

// answersOnly returns which of n tokens no text that is read has, nil if the file does not say it: those of the other
// language of a translator.
func (r *reader) answersOnly(n int) []bool {
	const key = own + "answers_only"
	v, ok := r.m.Value(key)
	if !ok {
		return nil
	}
	list, ok := v.([]bool)
	if !ok || len(list) != n {
		r.fail("%s is %T, want a truth for each of %d tokens", key, v, n)
		return nil
	}
	return list
}

// own returns a truth of the program's own keys, false if the file does not have it.
func (r *reader) own(key string) bool {
	v, ok := r.m.Value(own + key)
	b, is := v.(bool)
	if ok && !is {
		r.fail("%s%s is %T, want a bool", own, key, v)
	}
	return b
}

// ownIDs returns the ids of special tokens that one of the program's own keys has, as a list or one, nil if the file does not
// have it.
func (r *reader) ownIDs(key string, types []TokenType) []int32 {
	v, ok := r.m.Value(own + key)
	if !ok {
		return nil
	}
	list, ok := v.([]int32)
	if n, one := integer(v); one {
		list, ok = []int32{int32(min(max(n, -1), math.MaxInt32))}, true
	}
	if !ok || len(list) > maxAround {
		r.fail("%s%s is %T, want %d ids of tokens at most", own, key, v, maxAround)
		return nil
	}
	for _, id := range list {
		if id < 0 || int(id) >= len(types) || types[id] != Control && types[id] != UserDefined {
			r.fail("%s%s has %d, want ids of special tokens", own, key, id)
			return nil
		}
	}
	return list
}

// maxAround bounds what is put beside BOS and EOS around each text.
const maxAround = 8

// scores returns a required list of n finite numbers.
func (r *reader) scores(key string, n int) []float32 {
	v, ok := r.value(key, true)
	if !ok {
		return nil
	}
	var list []float32
	switch v := v.(type) {
	case []float32:
		list = v
	case []float64:
		list = convert[float64, float32](v)
	case []int32:
		list = convert[int32, float32](v)
	default:
		r.wrongType(key, v, "an array of numbers")
		return nil
	}
	r.sameLength(key, len(list), n)
	for i, s := range list {
		if math.IsNaN(float64(s)) {
			r.fail("%s%s[%d] is not a number", prefix, key, i)
			break
		}
	}
	return list
}

// types returns a list of n token types, or nil if the key is missing.
func (r *reader) types(key string, n int) []TokenType {
	v, ok := r.value(key, false)
	if !ok {
		return nil
	}
	var list []TokenType
	switch v := v.(type) {
	case []int32:
		list = tokenTypes(v)
	case []uint32:
		list = tokenTypes(v)
	case []int8:
		list = tokenTypes(v)
	case []uint8:
		list = tokenTypes(v)
	case []int16:
		list = tokenTypes(v)
	case []uint16:
		list = tokenTypes(v)
	case []int64:
		list = tokenTypes(v)
	case []uint64:
		list = tokenTypes(v)
	default:
		r.wrongType(key, v, "an array of integers")
		return nil
	}
	r.sameLength(key, len(list), n)
	if i := slices.Index(list, 0); i >= 0 {
		r.fail("%s%s[%d] is no type of token; those are 1 to %d", prefix, key, i, Byte)
	}
	return list
}

// tokenTypes converts GGUF's numbers; undefined numbers become 0. A token without a type (0) is Normal.
func tokenTypes[T number](in []T) []TokenType {
	out := make([]TokenType, len(in))
	for i, v := range in {
		switch {
		case v == 0:
			out[i] = Normal
		case v > 0 && v <= T(Byte):
			out[i] = TokenType(v)
		}
	}
	return out
}

func (r *reader) sameLength(key string, got, want int) {
	if got != want {
		r.fail("%s%s has %d entries for %d tokens", prefix, key, got, want)
	}
}

type number interface {
	~int8 | ~uint8 | ~int16 | ~uint16 | ~int32 | ~uint32 | ~int64 | ~uint64 | ~float32 | ~float64
}

// convert converts a slice to another numeric type.
func convert[From, To number](in []From) []To {
	out := make([]To, len(in))
	for i, v := range in {
		out[i] = To(v)
	}
	return out
}

// integer widens an integer of any size. A value that does not fit becomes one that is out of range.
func integer(v any) (int64, bool) {
	switch v := v.(type) {
	case uint8:
		return int64(v), true
	case int8:
		return int64(v), true
	case uint16:
		return int64(v), true
	case int16:
		return int64(v), true
	case uint32:
		return int64(v), true
	case int32:
		return int64(v), true
	case uint64:
		return int64(min(v, math.MaxInt64)), true
	case int64:
		return v, true
	case int:
		return int64(v), true
	}
	return 0, false
}
