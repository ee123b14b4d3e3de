package tokenizer

import (
	"fmt"
	"math"
	"slices"
	"strings"
	"testing"
	"unicode/utf8"
)

// Numbers of files come in any width, and mean the same.
func TestIntegers(t *testing.T) {
	for _, v := range []any{uint8(7), int8(7), uint16(7), int16(7), uint32(7), int32(7), uint64(7), int64(7), int(7)} {
		if got, ok := integer(v); got != 7 || !ok {
			t.Errorf("%T: %d, %v", v, got, ok)
		}
	}
	for v, want := range map[any]int64{int8(-7): -7, int16(-7): -7, int32(-7): -7, int64(-7): -7, -7: -7, uint64(math.MaxUint64): math.MaxInt64, uint32(math.MaxUint32): math.MaxUint32} {
		if got, ok := integer(v); got != want || !ok {
			t.Errorf("%T: %d, %v, want %d", v, got, ok, want)
		}
	}
	for _, v := range []any{"7", 7.0, true, nil, []int32{7}} {
		if _, ok := integer(v); ok {
			t.Errorf("%T is an integer", v)
		}
	}
}

// The id of a token is in the vocabulary, or none where it has all bits.
func TestIDs(t *testing.T) {
	for _, c := range []struct {
		v    any
		want int32
		ok   bool
	}{
		{uint32(0), 0, true}, {uint32(9), 9, true}, {uint32(10), none, false}, {int32(-1), none, true}, {int32(-2), none, false}, {int64(-1), none, true},
		{uint32(math.MaxUint32), none, true}, {int64(math.MaxUint32 + 1), none, false}, {nil, none, true}, {"1", none, false},
	} {
		r := &reader{m: fields{}}
		if c.v != nil {
			r.m = fields{prefix + "x": c.v}
		}
		if got := r.id("x", 10); got != c.want || (r.err == nil) != c.ok {
			t.Errorf("%T %v: %d, %v", c.v, c.v, got, r.err)
		}
	}
}

// Types of tokens come in any width. 0 is a normal token, and what is no type is refused.
func TestTokenTypes(t *testing.T) {
	want := []TokenType{Normal, Normal, Unknown, Control, UserDefined, Unused, Byte}
	for _, v := range []any{
		[]int8{0, 1, 2, 3, 4, 5, 6}, []uint8{0, 1, 2, 3, 4, 5, 6}, []int16{0, 1, 2, 3, 4, 5, 6}, []uint16{0, 1, 2, 3, 4, 5, 6},
		[]int32{0, 1, 2, 3, 4, 5, 6}, []uint32{0, 1, 2, 3, 4, 5, 6}, []int64{0, 1, 2, 3, 4, 5, 6}, []uint64{0, 1, 2, 3, 4, 5, 6},
	} {
		r := &reader{m: fields{prefix + "x": v}}
		if got := r.types("x", 7); !slices.Equal(got, want) || r.err != nil {
			t.Errorf("%T: %v, %v", v, got, r.err)
		}
	}
	for _, v := range []any{[]int32{1, 7}, []int32{1, -1}, []uint8{1, 255}, []int64{1, 1 << 40}, []int32{1}, []int32{1, 1, 1}, []string{"1", "1"}} {
		r := &reader{m: fields{prefix + "x": v}}
		if r.types("x", 2); r.err == nil {
			t.Errorf("%T %v was taken", v, v)
		}
	}
	for i, want := range []string{"undefined", "normal", "unknown", "control", "user-defined", "unused", "byte", "TokenType(7)"} {
		if got := TokenType(i).String(); got != want {
			t.Errorf("%d is %s, want %s", i, got, want)
		}
	}
	if got := TokenType(-1).String(); got != "TokenType(-1)" {
		t.Errorf("-1 is %s", got)
	}
}

// Scores are numbers of several kinds, one to a token; the first that is none is named.
func TestScores(t *testing.T) {
	for _, v := range []any{[]float32{1, 2}, []float64{1, 2}, []int32{1, 2}} {
		r := &reader{m: fields{prefix + "x": v}}
		if got := r.scores("x", 2); !slices.Equal(got, []float32{1, 2}) || r.err != nil {
			t.Errorf("%T: %v, %v", v, got, r.err)
		}
		if r.scores("x", 3); r.err == nil || r.err.Error() != "tokenizer.ggml.x has 2 entries for 3 tokens" {
			t.Errorf("%T: %v", v, r.err)
		}
	}
	r := &reader{m: fields{prefix + "x": []float64{1, math.NaN(), math.NaN()}}}
	if r.scores("x", 3); r.err == nil || r.err.Error() != "tokenizer.ggml.x[1] is not a number" {
		t.Errorf("got %v", r.err)
	}
}

// Tokens of bytes have names of six characters.
func TestByteToken(t *testing.T) {
	for b := range 256 {
		for _, name := range []string{fmt.Sprintf("<0x%02X>", b), fmt.Sprintf("<0x%02x>", b)} {
			if got, ok := byteToken(name); int(got) != b || !ok {
				t.Errorf("%s is %d, %v", name, got, ok)
			}
		}
	}
	for _, name := range []string{"", "<0x0>", "<0x000>", "<0x0A)", "(0x0A>", "<1x0A>", "<0X0A>", "<0x0G>", "<0x+1>", " <0x0A>"} {
		if _, ok := byteToken(name); ok {
			t.Errorf("%q is a byte", name)
		}
	}
}

// What BOS and EOS a text gets is what the file says, or else what its kind of vocabulary always had.
func TestAdditions(t *testing.T) {
	special := []string{"<s>", "</s>"}
	bpe := bpeFields(special, "a b")
	bpe = bpe.with("bos_token_id", uint32(257), "eos_token_id", uint32(258))
	for name, c := range map[string]struct {
		f        fields
		bos, eos bool // by default
	}{
		"llama": {spmFields("▁", "a"), true, false}, "gemma4": {mergedFields("a b"), true, false}, "sarvam": {mergedFields("a b").with("model", "gpt2", "pre", "sarvam-moe"), false, false},
		"whitespace": {mergedFields("a b").with("model", "whitespace"), false, false}, "plamo2": {spmFields("a").with("model", "plamo2"), false, false},
		"gpt-2": {bpe, false, false}, "llama-bpe": {bpe.with("pre", "llama-bpe"), true, false}, "tekken": {bpe.with("pre", "tekken"), true, false},
		"t5": {unigramFields("a").with("bos_token_id", uint32(0)), false, true}, "rwkv": {rwkvFields("th").with("bos_token_id", uint32(0), "eos_token_id", uint32(0)), false, false},
	} {
		for _, say := range []any{nil, false, true} {
			tok := mustNew(t, c.f.with("add_bos_token", say, "add_eos_token", say))
			bos, eos := c.bos, c.eos
			if say != nil {
				bos, eos = say == true, say == true
			}
			if name == "gemma4" { // though early files say otherwise
				bos = true
			}
			if tok.AddBOS() != bos || tok.AddEOS() != eos {
				t.Errorf("%s, the file says %v: BOS %v, EOS %v, want %v, %v", name, say, tok.AddBOS(), tok.AddEOS(), bos, eos)
			}
			ids := tok.Encode("a", Options{})
			first, _ := tok.BOS()
			last, _ := tok.EOS()
			if (ids[0] == first) != bos || (ids[len(ids)-1] == last) != eos {
				t.Errorf("%s, the file says %v: %v", name, say, ids)
			}
		}
		without := mustNew(t, c.f.with("bos_token_id", uint32(math.MaxUint32), "eos_token_id", uint32(math.MaxUint32)))
		if without.AddBOS() || without.AddEOS() {
			t.Errorf("%s adds what there is not", name)
		}
	}
}

// A prompt begins with one BOS where the vocabulary has one.
func TestBegin(t *testing.T) {
	tok := mustNew(t, spmFields("▁", "a"))
	for _, c := range []struct{ ids, want []int32 }{
		{nil, []int32{1}}, {[]int32{1}, []int32{1}}, {[]int32{1, 1}, []int32{1}}, {[]int32{1, 1, 1}, []int32{1, 1}}, {[]int32{1, 260, 1}, []int32{1, 260, 1}},
		{[]int32{260, 1, 1}, []int32{260, 1, 1}}, {[]int32{260}, []int32{260}},
	} {
		if got := tok.Begin(c.ids); !slices.Equal(got, c.want) {
			t.Errorf("%v begins as %v, want %v", c.ids, got, c.want)
		}
	}
	for n, want := range map[int]int{-1: -1, 0: 1, 5: 6} {
		if got := tok.Kept(n); got != want {
			t.Errorf("of %d tokens %d are kept, want %d", n, got, want)
		}
	}
	other := mustNew(t, spmFields("▁", "a").with("add_bos_token", false))
	if got := other.Begin([]int32{1, 1}); len(got) != 2 || other.Kept(5) != 5 || len(other.Begin(nil)) != 1 {
		t.Errorf("a vocabulary that adds no BOS: %v, %d are kept", got, other.Kept(5))
	}
	if got := mustNew(t, bpeFields(nil)).Begin(nil); len(got) != 0 {
		t.Errorf("a vocabulary without BOS begins with %v", got)
	}
}

// The unknown token is the one that a file names, or the first of that type.
func TestUnknown(t *testing.T) {
	f := fields{prefix + "model": "llama", prefix + "tokens": []string{"a", "<unk>", "<unk2>"}, prefix + "scores": make([]float32, 3), prefix + "token_type": []int32{1, 2, 2}, prefix + "add_space_prefix": false}
	for _, c := range []struct {
		f    fields
		want []int32
	}{
		{f, []int32{0, 1}}, {f.with("unknown_token_id", uint32(2)), []int32{0, 2}}, {f.with("unknown_token_id", uint32(0)), []int32{0, 0}},
		{f.with("token_type", []int32{1, 1, 1}), []int32{0}},
	} {
		if got := mustNew(t, c.f).EncodePart("aé"); !slices.Equal(got, c.want) {
			t.Errorf("got %v, want %v", got, c.want)
		}
	}
}

// A generation ends with every token that a file names for an end.
func TestNamedEnds(t *testing.T) {
	f := bpeFields([]string{"x1", "x2"})
	for _, key := range []string{"eos_token_id", "eot_token_id", "eom_token_id", "fim_pad_token_id", "fim_rep_token_id", "fim_sep_token_id"} {
		if got := mustNew(t, f.with(key, uint32(256))).EOG(); !slices.Equal(got, []int32{256}) {
			t.Errorf("%s: %v", key, got)
		}
	}
	if got := mustNew(t, f.with("eot_token_id", uint32(257), "eos_token_id", uint32(256))).EOG(); !slices.Equal(got, []int32{256, 257}) {
		t.Errorf("two: %v", got)
	}
	if got := mustNew(t, f).EOG(); len(got) != 0 {
		t.Errorf("none: %v", got)
	}
	// A token that is always one in plain text ends it too, and is then no text.
	types := slices.Clone(f[prefix+"token_type"].([]int32))
	types[256] = 4
	tok := mustNew(t, f.with("token_type", types, "eot_token_id", uint32(256)))
	if tok.TokenType(256) != Control || len(tok.Piece(256, false)) != 0 {
		t.Errorf("an end is %v", tok.TokenType(256))
	}
}

// In Phi-3 all control tokens but three strip the white space after them.
func TestStripped(t *testing.T) {
	f := bpeFields([]string{"<unk>", "<s>", "<|endoftext|>", "<|user|>", "<|end|>"})
	for name, want := range map[string]bool{"": false, "Phi-2": false, "My Phi-3 mini": true, "phi3": true, "PHI3.5": true} {
		g := f.with()
		g["general.name"] = name
		tok := mustNew(t, g)
		for i, text := range []string{"<unk>", "<s>", "<|endoftext|>", "<|user|>", "<|end|>"} {
			ids := tok.Encode(text+" \t\n\v\f\rx", Options{ParseSpecial: true})
			if stripped := len(ids) == 2; stripped != (want && i >= 3) {
				t.Errorf("%q: what follows %s is stripped: %v", name, text, stripped)
			}
		}
		if (tok.longest == 0) != want {
			t.Errorf("%q: an id stands for %d bytes at most", name, tok.longest)
		}
	}
}

// A text is cut into special tokens and others until it is of no more use.
func TestCutEnds(t *testing.T) {
	tok := mustNew(t, bpeFields([]string{"<s>", "<e>"}))
	const text = "ab<s>cd<e><s>ef"
	want := []string{"ab", "<s>", "cd", "<e>", "<s>", "ef"}
	for most := 1; most <= len(want)+1; most++ {
		var got []string
		tok.controls.cut(text, literal{}, nil, func(part string, id int32) bool {
			if (id == none) != (part[0] != '<') {
				t.Errorf("%q is %d", part, id)
			}
			got = append(got, part)
			return len(got) < most
		})
		if !slices.Equal(got, want[:min(most, len(want))]) {
			t.Errorf("up to %d parts: %q", most, got)
		}
	}
}

// Signs of ASCII are all its characters but letters, digits, spaces and controls.
func TestASCIISigns(t *testing.T) {
	for r := rune(0); r < 0x100; r++ {
		want := strings.ContainsRune("!\"#$%&'()*+,-./:;<=>?@[\\]^_`{|}~", r)
		if asciiSign(r) != want {
			t.Errorf("%q: %v", r, !want)
		}
	}
}

// A byte-level vocabulary spells each byte as one character: printable ones of Latin-1 as themselves, the others as those
// from U+0100 on, in order.
func TestByteChars(t *testing.T) {
	next := rune(0x100)
	for b, r := range byteChars {
		want := rune(b)
		if b <= 0x20 || b >= 0x7f && b <= 0xa0 || b == 0xad {
			want, next = next, next+1
		}
		if r != want || int(charBytes[r]) != b {
			t.Errorf("byte %#x is %U, want %U; that is %d", b, r, want, charBytes[r])
		}
	}
	if next != 0x144 || len(charBytes) != 0x144 {
		t.Errorf("the last is %U", next)
	}
	// What stands for no byte is itself, after the last too.
	for text, want := range map[string]string{"Ġa": " a", "\u0143\u0144\u0145": "\xad\u0144\u0145", " \x7f\u00a0\u00ad": " \x7f\u00a0\u00ad", "字ÿ": "字\xff", "\xff": "\xff"} {
		if got := string(appendBytesOf(nil, text)); got != want {
			t.Errorf("%q stands for %q, want %q", text, got, want)
		}
	}
}

// Scores have ranks in reverse order, zeros the same.
func TestRanks(t *testing.T) {
	scores := []float32{float32(math.Inf(1)), math.MaxFloat32, 2, 1, math.SmallestNonzeroFloat32, 0, -math.SmallestNonzeroFloat32, -1, -2, -math.MaxFloat32, float32(math.Inf(-1))}
	for i := range scores[1:] {
		if rankOf(scores[i]) >= rankOf(scores[i+1]) {
			t.Errorf("%v ranks %d, %v %d", scores[i], rankOf(scores[i]), scores[i+1], rankOf(scores[i+1]))
		}
	}
	if zero := float32(math.Copysign(0, -1)); rankOf(zero) != rankOf(0) {
		t.Errorf("zeros rank %d and %d", rankOf(zero), rankOf(0))
	}
}

// Entries that a text begins with are found, shortest first, whatever others there are.
func TestPrefixes(t *testing.T) {
	index := map[string]int32{}
	for i, text := range []string{"a", "ab", "abc", "abd", "b", "bb", "\x00", "\xff", "\xff\xff", "é", strings.Repeat("z", maxPrefix)} {
		index[text] = int32(i)
	}
	p := newPrefixes(&reader{}, index)
	if p.longest() != maxPrefix {
		t.Errorf("the longest has %d bytes", p.longest())
	}
	for _, text := range []string{"a", "ab", "abcd", "abd", "ac", "b", "bbb", "c", "\x00\x00", "\xff", "\xff\xff\xff", "é", "\xc3", strings.Repeat("z", maxPrefix+5), "zz"} {
		var got, want []int32
		p.each(text, func(i, n int) {
			if p.texts[i] != text[:n] {
				t.Errorf("%q: %q for %d bytes", text, p.texts[i], n)
			}
			got = append(got, p.ids[i])
		})
		for n := 1; n <= len(text); n++ {
			if id, ok := index[text[:n]]; ok {
				want = append(want, id)
			}
		}
		if !slices.Equal(got, want) {
			t.Errorf("%q: %v, want %v", text, got, want)
		}
	}
	r := &reader{}
	if newPrefixes(r, map[string]int32{strings.Repeat("z", maxPrefix+1): 0}); r.err == nil {
		t.Error("an entry that is too long was taken")
	}
}

// The texts of vocabularies may be 65535 bytes long, what merges make too.
func TestLongTokens(t *testing.T) {
	long := strings.Repeat("a", 65535)
	tok := mustNew(t, spmFields("▁", "a", long).with("add_space_prefix", false))
	if got := tok.Token(261); len(got) != len(long) {
		t.Errorf("a token of %d bytes", len(got))
	}
	if _, err := New(spmFields("▁", long+"a")); err == nil || !strings.Contains(err.Error(), "tokens[260] has 65536 bytes, want at most 65535") {
		t.Errorf("a longer one: %v", err)
	}
	half := strings.Repeat("a", 32767)
	mustNew(t, bpeFields(nil, half+" a"+half))
	_, err := New(bpeFields(nil).with("merges", []string{half + "a a" + half}))
	if err == nil || !strings.Contains(err.Error(), "merges[0] makes a text of 65536 bytes, want at most 65535") {
		t.Errorf("a longer merge: %v", err)
	}
}

// Where words end does not depend on how a text is cut into parts.
func TestPartsOfTexts(t *testing.T) {
	tok := mustNew(t, spmFields("▁", "a", "b", "a▁", "▁▁", "▁b", "b▁▁"))
	for _, unit := range []string{"ab ", "a b", "aa b b", "  b", "é b"} {
		text := strings.Repeat(unit, 3*partBytes/len(unit))
		for shift := range 4 {
			part := text[shift:]
			if !utf8.RuneStart(part[0]) {
				continue
			}
			got := tok.model.encode(nil, part, new(scratch))
			want := tok.model.(*spm).word(nil, strings.ReplaceAll(part, " ", escapedSpace), new(scratch))
			if !slices.Equal(got, want) {
				t.Errorf("%q from %d on: other ids in parts", unit, shift)
			}
		}
	}
	c := crossings{}
	c['x'] = true
	for _, r := range []struct {
		around string
		ends   bool
	}{{"a b", true}, {"x b", false}, {"  b", false}, {"ab ", true}, {"\u2581 b", false}} {
		text := strings.Repeat("a", partBytes-strings.IndexByte(r.around, ' ')) + r.around + strings.Repeat("a", 9)
		if r.around == "  b" {
			text = strings.Repeat("a", partBytes-1) + r.around + strings.Repeat("a", 9)
		}
		if got := c.partEnd(text); (got == partBytes) != r.ends || got != partBytes && got != partBytes+1 && got != len(text) {
			t.Errorf("%q at the end of a part: it ends at %d of %d", r.around, got, len(text))
		}
	}
	if got := c.partEnd(strings.Repeat(" ", 9)); got != 9 {
		t.Errorf("a short text ends at %d", got)
	}
}

// What follows BOS before each text follows it wherever a text begins, once.
func TestAfterBOS(t *testing.T) {
	f := bpeFields([]string{"[gMASK]", "<sop>", "<x>"})
	at := int32(len(f[prefix+"tokens"].([]string)) - 3)
	f[prefix+"bos_token_id"], f[prefix+"add_bos_token"] = uint32(at), true
	f["quern.tokenizer.after_bos"] = []int32{at + 1}
	tok := mustNew(t, f)
	a := tok.EncodePart("a")[0]
	for _, c := range []struct {
		text string
		o    Options
		want []int32
	}{
		{"a", Options{}, []int32{at, at + 1, a}},
		{"", Options{}, []int32{at, at + 1}},
		{"a", Options{NoSpecial: true}, []int32{a}},
		{"[gMASK]<sop><x>a", Options{ParseSpecial: true}, []int32{at, at + 1, at + 2, a}},
		{"[gMASK]<x>a", Options{ParseSpecial: true}, []int32{at, at + 2, a}},
	} {
		if got := tok.Begin(tok.Encode(c.text, c.o)); !slices.Equal(got, c.want) {
			t.Errorf("%q, %+v: %v, want %v", c.text, c.o, got, c.want)
		}
	}
	if got := tok.Begin(nil); !slices.Equal(got, []int32{at, at + 1}) || tok.Kept(5) != 7 {
		t.Errorf("no text begins with %v, and %d are kept of 5", got, tok.Kept(5))
	}
	f[prefix+"add_bos_token"] = false
	if tok := mustNew(t, f); len(tok.Encode("", Options{})) != 0 || tok.Kept(5) != 5 {
		t.Error("there is a token after no BOS")
	}
	f[prefix+"add_bos_token"] = true
	for _, bad := range []any{[]int32{a}, []int32{at + 3}, []int32{-1}, "x", make([]int32, 9)} {
		f["quern.tokenizer.after_bos"] = bad
		if _, err := New(f); err == nil || !strings.Contains(err.Error(), "quern.tokenizer.after_bos") {
			t.Errorf("%v: error %v", bad, err)
		}
	}
}
