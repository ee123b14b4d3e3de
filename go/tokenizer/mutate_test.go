package tokenizer

import (
	"maps"
	"math"
	"math/rand/v2"
	"reflect"
	"runtime"
	"slices"
	"strings"
	"testing"
)

// FuzzVocabularies changes small vocabularies of every kind: lengths of lists, types, missing keys, ids out of range.
// What comes of it encodes and spells, or is refused in a line.
func FuzzVocabularies(f *testing.F) {
	zoo := newZoo()
	for i := range zoo {
		f.Add(uint8(i), []byte{1, byte(i), 2, 3, 5, 8, 13, 21})
	}
	f.Fuzz(func(t *testing.T, which uint8, script []byte) { zoo[int(which)%len(zoo)].try(t, script) })
}

// TestMutatedVocabularies is FuzzVocabularies with a fixed number of changes to each.
func TestMutatedVocabularies(t *testing.T) {
	rng := rand.New(rand.NewPCG(1, 2))
	zoo, made := newZoo(), 0
	for _, f := range zoo {
		for range 300 {
			script := make([]byte, 16)
			for k := range script {
				script[k] = byte(rng.Uint32())
			}
			if f.try(t, script) {
				made++
			}
			if t.Failed() {
				return
			}
		}
	}
	if t.Logf("%d of %d changed vocabularies were taken", made, 300*len(zoo)); made < 300 {
		t.Error("too few came far enough")
	}
}

// newZoo returns a vocabulary of each kind, with texts that mean something to some of them.
func newZoo() []fields {
	special := []string{"<s>", "</s>", "<|im_start|>", "<|im_end|>", "<|fim_prefix|>", "<end_of_turn>"}
	pieces := []string{"▁", "a", "b", "ab", "▁a", "<|im_end|>", "日本", "é"}
	zoo := []fields{
		spmFields(pieces...), mergedFields("a b", "▁ a", "ab ▁"), unigramFields(pieces...), rwkvFields("th", "the", `\n\n`, `\xe5\xad`), bertFields("a", "##b", "ab", "▁a"),
		spmFields(pieces...).with("model", "plamo2"), mergedFields("a b").with("model", "whitespace"),
		unigramFields("▁", "a", "b").with("precompiled_charsmap", charsMapOf(map[string]string{"a": "b", "é": "xyz"})),
	}
	for _, pre := range []string{"gpt-2", "llama-bpe", "qwen35", "deepseek-v3", "tekken", "chameleon", "jais-2", "gpt-4o", "afmoe"} {
		zoo = append(zoo, bpeFields(special, "a b", "Ġ a", "Ġ Ġ", "ab Ġ").with("pre", pre, "eos_token_id", uint32(1), "bos_token_id", uint32(0), "add_bos_token", true))
	}
	return zoo
}

var oddValues = []any{
	uint32(0), uint32(1), uint32(259), uint32(math.MaxUint32), int32(-1), int64(math.MinInt64), uint64(math.MaxUint64), float32(0), math.NaN(),
	"", "llama", "gpt2", "bert", "t5", "rwkv", "plamo2", "whitespace", "gemma4", "qwen2", true, false,
	[]int32{}, []int32{1, 2, 3}, []float32{}, []float32{1}, []string{}, []string{"a b", "a"}, []uint8{1, 2, 3, 4, 5}, []bool{true}, []any{},
}

var oddTexts = []string{"", " ", "a b", "ab", "<0x41>", "<0xZZ>", "▁", "\xff", "<|im_end|>", "##", `\\x`, "a  b", "\x00", strings.Repeat("x", 2000)}

// try changes a vocabulary by a script, and reports whether it was taken.
func (f fields) try(t *testing.T, script []byte) bool {
	t.Helper()
	below := func(n int) int {
		if len(script) == 0 {
			return 0
		}
		c := script[0]
		script = script[1:]
		return int(c) % n
	}
	f = maps.Clone(f)
	for range 1 + below(3) {
		keys := slices.Sorted(maps.Keys(f))
		if len(keys) == 0 {
			break
		}
		key := keys[below(len(keys))]
		list := reflect.ValueOf(f[key])
		if list.Kind() == reflect.Slice && list.Len() > 0 && below(4) > 0 {
			all := reflect.AppendSlice(reflect.MakeSlice(list.Type(), 0, list.Len()), list)
			at := all.Index((below(256) + 5*below(2)*all.Len()) % all.Len())
			switch below(6) {
			case 0:
				all = all.Slice(0, all.Len()-1)
			case 1:
				all = all.Slice(0, below(min(all.Len(), 256)))
			case 2:
				all = reflect.Append(all, at)
			case 3:
				at.SetZero()
			default:
				switch at.Kind() {
				case reflect.String:
					at.SetString(oddTexts[below(len(oddTexts))])
				case reflect.Int32:
					at.SetInt(int64(below(9)) - 1)
				case reflect.Float32:
					at.SetFloat([]float64{0, 1e38, -1e38, math.Inf(-1), math.NaN()}[below(5)])
				case reflect.Uint8:
					at.SetUint(uint64(below(256)))
				}
			}
			f[key] = all.Interface()
			continue
		}
		switch below(4) {
		case 0:
			delete(f, key)
		case 1, 2:
			f[key] = oddValues[below(len(oddValues))]
		case 3:
			more := strings.Fields("add_bos_token add_eos_token add_space_prefix eot_token_id unknown_token_id seperator_token_id cls_token_id fim_pad_token_id " +
				"remove_extra_whitespaces escape_whitespaces precompiled_charsmap merges scores pre token_type_count")
			f[prefix+more[below(len(more))]] = oddValues[below(len(oddValues))]
		}
	}
	defer func() {
		if v := recover(); v != nil {
			t.Errorf("%v: panic: %v", f, v)
			panic(v)
		}
	}()
	var before, after runtime.MemStats
	runtime.ReadMemStats(&before)
	tok, err := New(f)
	if err == nil {
		for _, text := range []string{"", "ab the  é日本語\xff\n\n x<|im_end|>", strings.Repeat("ab ▁a", 50)} {
			for _, o := range []Options{{}, {ParseSpecial: true}, {NoSpecial: true}} {
				ids := tok.Encode(text, o)
				for _, id := range ids {
					if !tok.valid(id) {
						t.Fatalf("%v: %q: id %d", f, text, id)
					}
				}
				tok.Detokenize(ids, true)
			}
		}
	}
	runtime.ReadMemStats(&after)
	if made := after.TotalAlloc - before.TotalAlloc; made > 64<<20 {
		t.Errorf("%v: %d MB", f, made>>20)
	}
	if err != nil && strings.Contains(err.Error(), "\n") {
		t.Errorf("more than a line: %v", err)
	}
	return err == nil
}
